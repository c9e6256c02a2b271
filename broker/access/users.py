"""Accounts as RocketMQ 5 has them: users, and rules of what each may do with a resource.

What the file of accounts says is told by RocketMQ's own mapping (`AuthMigrator`): an entry of a
list is a rule of the policy Custom, a default one of the policy Default. What a rule of RocketMQ 5
says besides has no place in the file, and is refused: addresses, parts of names, clusters, and
actions of administrators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from .editing import Change
from .permissions import Perm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .accounts import Form

_SUBJECT: Final = "User:"
_SUPER, _NORMAL, _ENABLED = "Super", "Normal", "enable"
_ALLOW, _DENY = "Allow", "Deny"
_ALL: Final = "All"
_ACTIONS: Final = {"pub": Perm.PUB, "sub": Perm.SUB, "all": Perm.PUB | Perm.SUB}
_TOPIC, _GROUP = "Topic", "Group"
_MOST_TOLD: Final = 100


class UserInfo(msgspec.Struct, rename="camel"):
    """A user of RocketMQ 5."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class Rule(msgspec.Struct, rename="camel"):
    """What a user may do with a resource."""

    resource: str
    actions: list[str] = []
    source_ips: list[str] | None = None
    decision: str = ""


class Policy(msgspec.Struct, rename="camel"):
    """Rules of one kind. RocketMQ's policies Custom and Default differ here by their resources."""

    entries: list[Rule] = []


class AclInfo(msgspec.Struct, rename="camel"):
    """The rules of a user."""

    subject: str | None = None
    policies: list[Policy] = []


class CannotSay(Exception):
    """Something for which the file of accounts has no place."""


class _Resource(NamedTuple):
    """A topic or group, or with the name None all that no other rule names."""

    kind: str
    name: str | None


def user_of(form: Form) -> dict[str, str]:
    """An account as a user. An administrator whose lists say what it may do is no super user, who
    may do everything.
    """
    return {
        "password": form.secret_key,
        "userStatus": _ENABLED,
        "userType": _SUPER if _may_do_everything(form) else _NORMAL,
        "username": form.access_key,
    }


def acl_of(form: Form, resource_filter: str = "") -> dict[str, Any]:
    """What an account may do, as rules: those whose resource has this text in it."""
    lists = ((_TOPIC, form.topic_perms), (_GROUP, form.group_perms))
    custom = [
        _rule(f"{kind}:{entry.partition('=')[0].strip()}", entry.partition("=")[2])
        for kind, entries in lists
        for entry in entries
    ]
    defaults = [
        _rule(f"{_TOPIC}:*", form.default_topic_perm),
        _rule(f"{_GROUP}:*", form.default_group_perm),
    ]
    policies = []
    for name, rules in (("Custom", custom), ("Default", defaults)):
        found = [rule for rule in rules if resource_filter in rule["resource"]]
        if found:
            policies.append({"entries": found, "policyType": name})
    return {"policies": policies, "subject": f"{_SUBJECT}{form.access_key}"}


def _may_do_everything(form: Form) -> bool:
    return form.admin and not (form.topic_perms or form.group_perms)


def _rule(resource: str, text: str) -> dict[str, Any]:
    perm = Perm.parse(text)
    actions = [str(one).capitalize() for one in perm] or [_ALL]
    return {"actions": actions, "decision": _ALLOW if perm else _DENY, "resource": resource}


def name_of(subject: str) -> str:
    """The account of a subject. Raises CannotSay."""
    kind, colon, name = subject.partition(":")
    if f"{kind}{colon}" != _SUBJECT or not name:
        raise CannotSay(f"subject {subject[:_MOST_TOLD]!a} is no user (User:NAME)")
    return name


def change_of_user(user: UserInfo) -> Change:
    """What becomes of an account by a user's data. Raises CannotSay."""
    status, kind = (user.user_status or "").lower(), (user.user_type or "").lower()
    if status not in {"", _ENABLED}:
        why = "the file has no accounts that are switched off: remove it, or give it a new secret"
        raise CannotSay(f"userStatus {status[:_MOST_TOLD]!a}: {why}")
    if kind not in {"", _SUPER.lower(), _NORMAL.lower()}:
        raise CannotSay(f"userType {kind[:_MOST_TOLD]!a} is neither Super nor Normal")
    return Change(secret=user.password or None, admin=kind == _SUPER.lower() if kind else None)


def change_of_acl(acl: AclInfo, form: Form) -> Change:
    """What becomes of an account by rules. Raises CannotSay."""
    if _may_do_everything(form):
        why = "is an administrator, and a rule would take everything else from it"
        raise CannotSay(f"account {form.access_key!a} {why}")
    return _change(
        (resource, _perm_of(rule, resource))
        for policy in acl.policies
        for rule in policy.entries
        for resource in _resources(rule.resource)
    )


def change_without(resource: str | None) -> Change:
    """What becomes of an account that loses its rule for a resource, None for all rules. Raises
    CannotSay.
    """
    if resource is None:
        return Change(
            only_topics={}, only_groups={}, default_topic=Perm.DENY, default_group=Perm.DENY
        )
    return _change((one, Perm.DENY if one.name is None else None) for one in _resources(resource))


def _change(changes: Iterable[tuple[_Resource, Perm | None]]) -> Change:
    lists: Mapping[str, dict[str, Perm | None]] = {_TOPIC: {}, _GROUP: {}}
    defaults: dict[str, Perm | None] = {}
    for (kind, name), perm in changes:
        if name is None:
            defaults[kind] = perm
        else:
            lists[kind][name] = perm
    return Change(
        topics=lists[_TOPIC],
        groups=lists[_GROUP],
        default_topic=defaults.get(_TOPIC),
        default_group=defaults.get(_GROUP),
    )


def _resources(text: str) -> list[_Resource]:
    """The topics or groups that a rule is about. Raises CannotSay."""
    if text == "*":
        return [_Resource(_TOPIC, None), _Resource(_GROUP, None)]
    kind, _, name = text.partition(":")
    found = kind.capitalize()
    told = f"resource {text[:_MOST_TOLD]!a}"
    if found not in {_TOPIC, _GROUP}:
        raise CannotSay(f"{told} is neither Topic:NAME nor Group:NAME")
    if name == "*":
        return [_Resource(found, None)]
    if not name or name.endswith("*"):
        raise CannotSay(f"{told}: the file names each topic and group, and has no parts of names")
    return [_Resource(found, name)]


def _perm_of(rule: Rule, resource: _Resource) -> Perm:
    """The permission that a rule gives. Raises CannotSay."""
    told = f"the rule for {rule.resource[:_MOST_TOLD]!a}"
    if rule.source_ips:
        raise CannotSay(f"{told} names addresses: the file has none in its lists")
    perm = Perm.DENY
    for action in rule.actions:
        found = _ACTIONS.get(action.lower())
        if found is None:
            raise CannotSay(f"{told} names {action[:_MOST_TOLD]!a}: the file has Pub and Sub")
        perm |= found
    of_kind = Perm.SUB if resource.kind == _GROUP else Perm.PUB | Perm.SUB
    decision = rule.decision.capitalize()
    if not perm & of_kind or decision not in {_ALLOW, _DENY}:
        raise CannotSay(f"{told} says nothing: it needs actions, and Allow or Deny")
    if decision == _ALLOW:
        return perm & of_kind
    if perm & of_kind != of_kind:
        raise CannotSay(f"{told} denies a part: allow the other part instead")
    return Perm.DENY
