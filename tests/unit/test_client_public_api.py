"""What a user may call of the classes that read: their public names, and that each is described."""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING

import pytest
from tidy.sources import ROOT

import silomq

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Class -> everything public of it, by hand: a name that appears here is a promise.
PUBLIC: dict[type, str] = {
    silomq.Consumer: "close fileno lag missed poll poll_arrow positions seek topic",
    silomq.GetMessageResult: "max_offset messages min_offset next_begin_offset status",
    silomq.GroupConsumer: (
        "ack ack_polled assignment auto_ack close fileno group listen max_reconsume_times missed "
        "nack poll poll_arrow store"
    ),
    silomq.Listener: "close error stop wait",
    silomq.MessageView: (
        "body born_host born_timestamp check flag keys message_id offset_message_id origin_topic "
        "physical_offset place properties queue queue_id queue_offset raw_body reconsume_times "
        "record size store_host store_timestamp sys_flag tags topic"
    ),
    silomq.Sql: "",
    silomq.Transaction: "commit half message_id rollback state topic",
    silomq.TransactionProducer: "begin close group run",
    silomq.StoreReader: (
        "at by_key by_offset_message_id by_unique_key close earliest_store_time earliest_time "
        "get_message look_at max_offset max_physical_offset min_offset min_physical_offset "
        "offset_at_time read_queues undispatched"
    ),
}
STUB = ROOT / "client/consuming/_message_view.pyi"


def names(kind: type) -> set[str]:
    """Public names of a class, with those that its methods give to `self`."""
    inherited = {name for base in kind.__bases__ for name in dir(base)}
    found = {*dir(kind), *_assigned(kind)} - inherited
    return {name for name in found if not name.startswith("_")}


def _assigned(kind: type) -> Iterator[str]:
    if kind is silomq.MessageView:
        return  # compiled: what it has is in `dir`
    for node in ast.walk(ast.parse(inspect.getsource(kind))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_public_names(kind: type) -> None:
    assert names(kind) == set(PUBLIC[kind].split())


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_every_public_name_is_described(kind: type) -> None:
    assert (kind.__doc__ or "").strip()
    fields = getattr(kind, "__dataclass_fields__", ())  # their class's docstring names them
    for name in names(kind):
        text = kind.__doc__ if name in fields else inspect.getdoc(getattr(kind, name))
        assert text, name
        if name in fields:
            assert f"`{name}`" in text


def test_every_value_of_a_message_names_its_type() -> None:
    for name in names(silomq.MessageView) - {"check"}:
        text = inspect.getdoc(getattr(silomq.MessageView, name)) or ""
        assert re.match(
            r"(int|str|bytes|Host|list\[str\]|dict\[str, str\]|tuple\[str, int\])[^:]*: ", text
        ), name


def test_the_stub_describes_messages_as_the_module_does() -> None:
    (stub,) = (
        node
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "MessageView"
    )
    assert ast.get_docstring(stub) == inspect.getdoc(silomq.MessageView)
    described = {
        node.name: ast.get_docstring(node)
        for node in stub.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert described == {
        name: inspect.getdoc(getattr(silomq.MessageView, name))
        for name in names(silomq.MessageView)
    }
