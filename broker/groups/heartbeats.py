"""What a client says of itself in a heart-beat, as the clients of all languages write it.

C++ writes enums as numbers and numbers in quotes, and leaves members out that Java writes.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from ...store.filters.tags import MessageFilter, TagFilter, parse_filter, tag_filter

#: Values that other clients write as numbers: the positions in Java's enums.
_CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS: Final = ("BROADCASTING", "CLUSTERING")
_FROM_WHERE: Final = (
    *("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"),
    *("CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET"),
    "CONSUME_FROM_TIMESTAMP",
)
TAG: Final = "TAG"
BROADCASTING: Final = _MODELS[0]
#: The longest body of JSON, bytes: a heart-beat with some ten thousand topics.
_MOST_BODY: Final = 2 << 20


#: RocketMQ's longest names of groups and topics, and the longest client id, in characters.
Name = Annotated[str, msgspec.Meta(max_length=255)]
ClientId = Annotated[str, msgspec.Meta(max_length=1024)]
#: So many groups a client has at most.
_MOST_GROUPS: Final = 1000


class BadBody(ValueError):
    """A body that is not what its request demands."""


class Subscription(msgspec.Struct, rename="camel"):
    """A group's interest in one topic (SubscriptionData)."""

    topic: Name
    sub_string: str | None = None
    sub_version: int = 0
    expression_type: str | None = None
    class_filter_mode: bool = False
    tags_set: list[str] = msgspec.field(default_factory=list)
    code_set: list[int] = msgspec.field(default_factory=list)

    @property
    def kind(self) -> str:
        """The language of the expression."""
        return self.expression_type or TAG

    def compile(self) -> MessageFilter:
        """The filter. Raises FilterError."""
        return compile_filter(self.kind, self.sub_string)


class ConsumerData(msgspec.Struct, rename="camel"):
    """A consumer of one group."""

    group_name: Name
    consume_type: str | int = _CONSUME_TYPES[1]
    message_model: str | int = _MODELS[1]
    subscription_data_set: list[Subscription] = msgspec.field(default_factory=list)
    consume_from_where: str | int = _FROM_WHERE[0]

    def name_enums(self) -> None:
        """Turns the numbers of enums into their names. Raises BadBody."""
        self.consume_type = _named(self.consume_type, _CONSUME_TYPES)
        self.message_model = _named(self.message_model, _MODELS)
        self.consume_from_where = _named(self.consume_from_where, _FROM_WHERE)


class ProducerData(msgspec.Struct, rename="camel"):
    """A producer of one group."""

    group_name: Name


class Heartbeat(msgspec.Struct, rename={"client_id": "clientID"}):
    """The body of HEART_BEAT."""

    client_id: ClientId
    consumers: Annotated[list[ConsumerData], msgspec.Meta(max_length=_MOST_GROUPS)] = msgspec.field(
        default_factory=list, name="consumerDataSet"
    )
    producers: Annotated[list[ProducerData], msgspec.Meta(max_length=_MOST_GROUPS)] = msgspec.field(
        default_factory=list, name="producerDataSet"
    )


class ClientConfig(msgspec.Struct, rename="camel"):
    """The body of CHECK_CLIENT_CONFIG."""

    subscription_data: Subscription
    client_id: str = ""
    group: str = ""


def decode(kind: type[Any], body: bytes) -> Any:
    """The struct in a body. Raises BadBody."""
    if len(body) > _MOST_BODY:
        raise BadBody(f"the body has {len(body)} bytes: at most {_MOST_BODY} are read as JSON")
    try:
        return msgspec.convert(msgspec.json.decode(body), kind, strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadBody(f"the body is no {kind.__name__}: {error}") from error


def decode_heartbeat(body: bytes) -> Heartbeat:
    """The heart-beat in a body. Raises BadBody."""
    found: Heartbeat = decode(Heartbeat, body)
    for consumer in found.consumers:
        consumer.name_enums()
    return found


def compile_filter(kind: str, expression: str | None) -> MessageFilter:
    """The filter of an expression. A tag expression without a tag takes everything, as in RocketMQ.
    Raises FilterError.
    """
    if kind != TAG:
        return parse_filter(kind, expression)  # type: ignore[arg-type] # it refuses other kinds
    if expression is not None and not any(part.strip() for part in expression.split("||")):
        return TagFilter()
    return tag_filter(expression)


def _named(value: str | int, names: tuple[str, ...]) -> str:
    if isinstance(value, str) and not value.isdecimal():
        return value
    known = {str(number): name for number, name in enumerate(names)}
    name = known.get(str(value))
    if name is None:
        raise BadBody(f"{str(value)[:40]} is no number of {', '.join(names)}")
    return name
