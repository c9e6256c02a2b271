"""The tables of messages in docstrings say what the structs do; every message has a struct."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest

from silomq.shm.protocol import (
    admin_requests,
    answer,
    answers,
    changes,
    figure_requests,
    pop_answers,
    pops,
    request,
    requests,
    sessions,
)

if TYPE_CHECKING:
    from types import ModuleType

REQUESTS = get_args(requests.AnyRequest)
ANSWERS = get_args(answers.AnyAnswer)


def table(module: ModuleType) -> list[list[str]]:
    """The rows of the table in a module's docstring, cell by cell."""
    lines = (module.__doc__ or "").splitlines()
    borders = [number for number, line in enumerate(lines) if re.fullmatch(r"=+(  +=+)+", line)]
    assert len(borders) == 3, "a table has a head and three borders"
    columns = [match.span() for match in re.finditer("=+", lines[borders[0]])]
    rows = lines[borders[1] + 1 : borders[2]]
    assert all(len(row) <= columns[-1][1] for row in rows), "a row is wider than the table"
    return [[row[start:end].strip() for start, end in columns] for row in rows]


def tag(struct: Any) -> str:
    found = struct.__struct_config__.tag
    assert isinstance(found, str)
    return found


def structs(module: ModuleType, base: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """The messages that a module defines."""
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value is not base
        if value.__module__ == module.__name__
    }


def answered_with(asked: type[request.Request[Any]]) -> tuple[Any, ...]:
    answer = request.answer_of(asked)
    return get_args(answer) or (answer,)


def test_the_table_of_requests_names_each_with_its_answers() -> None:
    said = [(name, answer) for name, _, answer in table(requests)]
    assert len(dict(said)) == len(said)
    in_code = {tag(r): ", ".join(tag(answer) for answer in answered_with(r)) for r in REQUESTS}
    assert dict(said) == in_code


def test_every_request_and_answer_can_be_received() -> None:
    modules = (requests, pops, admin_requests, figure_requests, changes)
    asked = [structs(module, request.Request) for module in modules]
    assert set().union(*asked) == set(REQUESTS)
    given = structs(answers, answer.Answer) | structs(pop_answers, answer.Answer)
    assert given == set(ANSWERS)


def test_every_answer_answers_something() -> None:
    used = {answer for request in REQUESTS for answer in answered_with(request)}
    assert set(ANSWERS) - used == {answers.Error, answers.RegistryRestarted}
    text = requests.__doc__ or ""
    assert all(f"`{tag(kind)}`" in text for kind in (answers.Error, answers.RegistryRestarted))


def test_requests_are_frozen_and_refuse_fields_that_nobody_knows() -> None:
    for asked in REQUESTS:
        config = asked.__struct_config__
        assert config.frozen
        # A hello of another version must be understood as far as its version.
        assert config.forbid_unknown_fields == (asked is not requests.Hello)


def test_the_table_of_session_mail_names_each_message_with_sender_and_receiver() -> None:
    rows = table(sessions)
    mail = structs(sessions, sessions.SessionMail)
    assert sorted(name for name, *_ in rows) == sorted(tag(message) for message in mail)
    ends = {name for _, *cells, _ in rows for cell in cells for name in cell.split(", ")}
    assert ends == {"registry", "supervisor", "append", "reput", "flush"}
    assert all("supervisor" in (sender, receiver) for _, sender, receiver, _ in rows)


def test_a_new_version_is_a_decision() -> None:
    """The protocol of version 2, message by message. A test that fails here asks whether PROTOCOL
    must change: it must, once a release speaks the one that is written here.
    """
    fields = {tag(struct): " ".join(struct.__struct_encode_fields__) for struct in REQUESTS}
    assert requests.PROTOCOL == 2
    assert fields == {
        "hello": "protocol ring_size id",
        "open": "topic write id",
        "open delayed": "topic timer id",
        "open transact": "topic id",
        "open retry": "group dead id",
        "open replies": "id",
        "create": "topic queues id",
        "alter": "topic read_queues write_queues perm order filter_type sys_flag "
        "set_attributes drop_attributes id",
        "delete": "topic id",
        "topic": "topic id",
        "topics": "after id",
        "watch": "slots id",
        "bell": "id",
        "lease": "offset id",
        "clean": "id",
        "report": "id",
        "is open": "session id",
        "join": "group model filters start instance id",
        "sync": "have released id",
        "busy": "id",
        "groups": "after id",
        "group": "group after id",
        "reset": "group topic offsets id",
        "delete group": "group keep_offsets id",
        "open group": "group make id",
        "set group": "group consume_enable consume_broadcast_enable "
        "notify_consumer_ids_changed_enable retry_max_times retry_queue_nums broker_id "
        "consume_from_min_enable consume_message_orderly consume_timeout_minute group_sys_flag "
        "which_broker_when_consume_slowly set_attributes drop_attributes id",
        "group configs": "after only id",
        "forbid": "group topic readable id",
        "offsets": "after id",
        "readers": "topic id",
        "settings": "id",
        "keep": "group queues have id",
        "release": "group id",
        "remote": "group clients topics released id",
        "progress": "group topic id",
        "pop": "group topic queue_id most invisible_ms start single in_order attempt wait "
        "settled id",
        "settle": "group settled id",
        "look": "group topic queue_id wait in_order start id",
        "set mode": "topic group mode share id",
        "modes": "id",
        "board": "id",
        "next board": "after id",
        "metrics": "id",
        "reads": "id",
        "users": "id",
        "change": "number what actor trial_ms id",
    }


@pytest.mark.parametrize("struct", [*REQUESTS, *ANSWERS], ids=tag)
def test_every_message_says_what_it_is(struct: type[msgspec.Struct]) -> None:
    assert struct.__doc__
