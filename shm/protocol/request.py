"""What all requests to the registry are, and the bounds of their fields' values."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar, get_args

from msgspec import Meta, Struct

from .answer import Answer

#: Numbers of sessions and ack files, and offsets: of messages in queues, of bytes in the log.
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: A count or an index of entries of a table in memory.
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
#: A number whose range the registry checks.
AnyNumber = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A name of a topic, group or instance, which `store/names.py` checks later.
Name = Annotated[str, Meta(max_length=1024)]
#: Attributes of a topic or a group, by name.
Attributes = Annotated[dict[Name, Name], Meta(max_length=64)]

Answered = TypeVar("Answered", bound=Answer)


class Request(
    Struct,
    Generic[Answered],
    frozen=True,
    kw_only=True,
    tag_field="do",
    forbid_unknown_fields=True,
):
    """A client's request. Each request names the type of its answer in brackets. `id` is set when
    the request is sent.
    """

    id: Number = 0


def answer_of(request: type[Request[Answered]]) -> type[Answered]:
    """The struct, or the union of structs, that answers a request."""
    bases: tuple[Any, ...] = request.__dict__["__orig_bases__"]
    answer: type[Answered] = get_args(bases[0])[0]
    return answer
