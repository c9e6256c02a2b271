"""What accounts may do with topics and groups (RocketMQ's Permission and PlainPermissionChecker).

A group's permission stands beside those of topics, under the name of its retry topic: that is how
RocketMQ keeps it, and why a retry topic is checked by its group.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ...store.names import (
    MAX_RETRY_NAME_BYTES,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .addresses import AddressPattern
    from .signatures import SigningKey

#: Messages of all topics wait here: whoever may read one may read all.
_OF_ALL_TOPICS: Final = frozenset(
    (SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
)


class Perm(enum.Flag):
    """Permissions of a topic or a group."""

    DENY = 0
    PUB = 1
    SUB = 2

    @classmethod
    def parse(cls, text: str) -> Perm:
        """DENY, PUB, SUB or PUB|SUB. Raises ValueError."""
        found = _PERMS.get(text.strip())
        if found is None:
            raise ValueError(f"{text!a} is no permission: DENY, PUB, SUB or PUB|SUB")
        return found

    def __str__(self) -> str:
        return "|".join(one.name or "" for one in self) or "DENY"


_PERMS: Final = {
    "DENY": Perm.DENY,
    "PUB": Perm.PUB,
    "SUB": Perm.SUB,
    "PUB|SUB": Perm.PUB | Perm.SUB,
    "SUB|PUB": Perm.PUB | Perm.SUB,
}


class Need(NamedTuple):
    """One permission that a request needs. `resource` is a topic, or a group's retry topic. Of
    several permissions it takes all, and with `either` any one.
    """

    resource: str
    perm: Perm
    either: bool = False

    def is_met_by(self, given: Perm) -> bool:
        """Whether these permissions of the resource will do."""
        return bool(self.perm & given) if self.either else self.perm in given

    def __str__(self) -> str:
        name = self.resource[:MAX_RETRY_NAME_BYTES]  # it came from the network
        perms = str(self.perm).replace("|", " or " if self.either else " and ")
        if name.startswith(RETRY_PREFIX):
            return f"{perms} of group {name.removeprefix(RETRY_PREFIX)!a}"
        return f"{perms} of topic {name!a}"


class Denied(Exception):
    """A request that its sender may not make. The text says what is missing, and no secret."""


class Rule(enum.StrEnum):
    """Why an account has a permission, or lacks it."""

    ADMINISTRATOR = "an administrator without lists of its own may do everything"
    TRACES = "every account may send traces"
    TOPIC = "topicPerms"
    GROUP = "groupPerms"
    DEFAULT_TOPIC = "defaultTopicPerm"
    DEFAULT_GROUP = "defaultGroupPerm"
    OF_ALL_TOPICS = "messages of all topics wait in this one, which defaultTopicPerm does not open"


class Decision(NamedTuple):
    """Whether something is allowed, by which rule, and what the rule gives."""

    allowed: bool
    rule: Rule
    given: Perm | None = None


@dataclass(frozen=True)
class Account:
    """One account. `perms` are by topic, and by the retry topic of a group."""

    access_key: str
    key: SigningKey = field(repr=False)
    admin: bool = False
    white: AddressPattern | None = None
    default_topic: Perm = Perm.DENY
    default_group: Perm = Perm.DENY
    perms: Mapping[str, Perm] = field(default_factory=dict)

    def has(self, need: Need) -> bool:
        """Whether the account has a permission."""
        return self.decide(need).allowed

    def decide(self, need: Need) -> Decision:
        """Whether the account has a permission, and why. An administrator without a list of its own
        has every one. Every account may send traces.
        """
        if self.admin and not self.perms:
            return Decision(allowed=True, rule=Rule.ADMINISTRATOR)
        if need.resource == TRACE_TOPIC and need.is_met_by(Perm.PUB):
            return Decision(allowed=True, rule=Rule.TRACES)
        is_group = need.resource.startswith(RETRY_PREFIX)
        given = self.perms.get(need.resource)
        if given is not None:
            rule = Rule.GROUP if is_group else Rule.TOPIC
        elif need.resource in _OF_ALL_TOPICS:
            given, rule = Perm.DENY, Rule.OF_ALL_TOPICS
        elif is_group:
            given, rule = self.default_group, Rule.DEFAULT_GROUP
        else:
            given, rule = self.default_topic, Rule.DEFAULT_TOPIC
        return Decision(need.is_met_by(given), rule, given)
