"""What users give to a group's consumer, as typed values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from ...store.errors import IllegalArgument
from .. import arguments
from ..consuming.message_view import MessageView
from ..times import Start, parse_start
from .popped_messages import Rows

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE: Final = "physical_offset"
_LONGEST_S = 365 * 86_400.0


def given_messages(
    value: MessageView | Iterable[MessageView] | pa.RecordBatch,
) -> list[MessageView] | Rows:
    """One message that was read, or several. Each is looked at before the next one is taken. Or
    rows of `poll_arrow`. Raises IllegalArgument, IllegalType.
    """
    if isinstance(value, MessageView):
        return [value]
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(value, arrow.RecordBatch):
        if _PLACE not in value.schema.names:
            raise IllegalArgument(
                f"rows are acknowledged by their column {_PLACE}: poll it as well"
            )
        return Rows(value.column(_PLACE).to_pylist())
    if not arguments.is_iterable(value):
        arguments.refuse_type("messages", value, "a MessageView, or an iterable of them")

    def checked(given: Iterable[MessageView]) -> list[MessageView]:
        return [given_message(one) for one in given]

    found: list[MessageView] = arguments.converted("messages", value, checked)
    return found


def given_message(value: object) -> MessageView:
    """A message that was read."""
    if not isinstance(value, MessageView):
        arguments.refuse_type("a message", value, "a MessageView")
    return value


def given_model(value: object) -> Literal["clustering", "broadcasting"]:
    """The name of a model."""
    found = arguments.choice("model", value, ("clustering", "broadcasting"))
    return "clustering" if found == "clustering" else "broadcasting"


def given_mode(value: object) -> Literal["pull", "pop"]:
    """How a consumer reads."""
    return "pop" if arguments.choice("mode", value, ("pull", "pop")) == "pop" else "pull"


def invisible_ms(value: object) -> int:
    """How long a popped message is leased. Raises IllegalArgument, IllegalType."""
    seconds = arguments.seconds("invisible", value)
    if not 0.001 <= seconds <= _LONGEST_S:
        raise IllegalArgument(f"invisible is {seconds:g} s: 0.001 s to a year")
    return round(seconds * 1000)


def start_of_pops(value: Start) -> Literal["earliest", "latest"]:
    """Where a group begins that pops. Raises IllegalArgument, IllegalType."""
    at = parse_start(value)
    if isinstance(at, int):
        raise IllegalArgument('start: with mode="pop" a group begins at "earliest" or "latest"')
    return at


def check_pops(model: object, instance: object) -> None:
    """Raises IllegalArgument for a model that cannot pop."""
    if given_model(model) != "clustering" or arguments.text("instance", instance):
        raise IllegalArgument('with mode="pop" the model is "clustering", without an instance')
