"""Every public call with hostile arguments, on a running store.

The calls are found by walking over `silomq.__all__`: a new class, method or argument is tested
without being listed. It needs an object to call it on (`World.make`), and a good value for each
argument without a default (`GOOD`); a test fails without them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import operator
import pickle
import random
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import LONG, PYTHON, StoreProcess
from support.hostile_values import VALUES, Refused
from support.public_calls import CALLS, Call
from support.repliers import Replier

from silomq import (
    Admin,
    Consumer,
    GroupConsumer,
    IllegalType,
    Listener,
    Message,
    MessageView,
    Producer,
    ReplyFuture,
    RequestProducer,
    SendFuture,
    SendResult,
    Sql,
    StoreError,
    StoreReader,
    Transaction,
    TransactionProducer,
)
from silomq.shm.control import ACTORS
from silomq.store.names import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC, SPARE, GROUP = "arguments", "spare", "arguments"
#: Good values by the names of arguments; those of a method have precedence.
GOOD: dict[str, Any] = {
    "topic": TOPIC, "body": b"good", "messages": [b"good", Message("good")], "group": GROUP,
    "name": GROUP, "subscribe": TOPIC, "queue_id": 0, "offset": 0, "queue_offset": 0,
    "physical_offset": 0, "message_id": "0A00000100002A9F0000000000000000", "key": "k",
    "timestamp_ms": 1, "offsets": {0: 0}, "callback": lambda _: None, "expression": "a > 1",
    "local": lambda _: True, "actor": "clean",
}  # fmt: skip
SPARE_NAMES = ("delete_topic", "create_topic", "update_topic", "delete_group")
PER_CALL_S = 20


class KeepsCode(StoreProcess):
    """A store whose code cannot be replaced."""

    @property
    def command(self) -> list[str]:
        code = (
            "import sys\nfrom silomq.supervisor import main\n"
            "from silomq.supervisor.live_settings import SettingsSource\n"
            "source = SettingsSource(overrides=tuple(sys.argv[1:]))\n"
            "sys.exit(main.serve(source.read(), source, keeps_code='it is kept'))"
        )
        return [*PYTHON, "-c", code, *super().command[len(PYTHON) + 2 :]]


class World:
    """A store, and objects to call."""

    def __init__(self, store: StoreProcess) -> None:
        self.store = store
        self.open = contextlib.ExitStack()
        self.producer = self.open.enter_context(Producer(store.path))
        self.reader = self.open.enter_context(StoreReader(store.path))
        self.admin = self.open.enter_context(Admin(store.path))
        self.admin.create_topic(SPARE)
        keeps_code = self.open.enter_context(KeepsCode(store.path.parent / "kept"))
        self.kept = self.open.enter_context(Admin(keeps_code.path))
        self.transactions = self.open.enter_context(TransactionProducer(store.path, GROUP))
        self.requests = self.open.enter_context(RequestProducer(store.path))
        self.open.enter_context(Replier(store.path, TOPIC))
        asks = {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "silomq-local:nobody"}
        asked = self.producer.send(TOPIC, b"asked", queue=0, properties=asks)
        store.await_dispatch()
        self.request = self.reader.at(TOPIC, 0, asked.queue_offset)
        self.consumer = self.open.enter_context(Consumer(store.path, TOPIC))
        self.member: GroupConsumer | None = None

    def make(self, call: Call) -> Any:
        """The object to call `call` on, with something to read where it reads."""
        kind = call.kind
        if call.method == "__init__":
            return kind
        if kind is GroupConsumer:
            self.producer.send(TOPIC, b"to be read")
            if self.member is None:
                self.member = GroupConsumer(self.store.path, GROUP, TOPIC)
            return self.member
        if kind is Listener:
            self.forget_member()
            self.member = GroupConsumer(self.store.path, GROUP, TOPIC)
            listener = self.member.listen(lambda _: None)
            listener.stop()
            return listener
        if kind is Consumer:
            self.consumer.seek(0, 0)
            return self.consumer
        if kind is SendFuture:
            return self.producer.send_async(TOPIC, b"async")
        if kind is ReplyFuture:
            return self.requests.request_async(TOPIC, b"async")
        if kind is Transaction:
            return self.transactions.begin(TOPIC, b"transaction")
        if kind is MessageView:
            return self.reader.at(TOPIC, 0, 0)
        if call == (Admin, "reload_code"):  # its only effect would be other processes
            return self.kept
        made = {
            Producer: self.producer,
            RequestProducer: self.requests,
            TransactionProducer: self.transactions,
            StoreReader: self.reader,
            Admin: self.admin,
        }
        if kind in {Message, Sql} or dataclasses.is_dataclass(kind):
            raise AssertionError(f"{call.name}: a plain value has a method with arguments")
        return made[kind]

    def good(self, call: Call) -> dict[str, Any]:
        """Good arguments for a call; those that have a default are left out."""
        found: dict[str, Any] = {}
        if call.kind is RequestProducer and call.method != "__init__":
            found["timeout"] = 0.05  # nobody replies in topics with hostile names
        for name, has_default in call.arguments.items():
            if has_default:
                continue
            if name == "store":
                found[name] = self.store.path
            elif name == "record":
                found[name] = self.reader.at(TOPIC, 0, 0).record
            elif name == "request":
                found[name] = self.request
            elif name == "message" or (name == "messages" and call.kind is GroupConsumer):
                found[name] = self.reader.at(TOPIC, 0, 0)
            elif call.method in SPARE_NAMES and name in {"topic", "group"}:
                found[name] = SPARE
            elif call == (Admin, "topic"):
                found[name] = TOPIC
            elif call.kind is Sql:
                found[name] = "a > 1"
            else:
                found[name] = GOOD[name]
        return found

    def forget_member(self) -> None:
        member, self.member = self.member, None
        if member is not None:
            member.close()


@pytest.fixture(scope="module")
def world(store: StoreProcess) -> Iterator[World]:
    with Producer(store.path) as producer:
        for queue in range(4):
            producer.send(TOPIC, b"first", queue=queue, keys="k")
    store.await_dispatch()
    found = World(store)
    yield found
    found.forget_member()
    found.open.close()


def test_every_public_call_is_found() -> None:
    for name in ("Producer.send", "Producer.__init__", "Admin.group", "StoreReader.by_key",
                 "GroupConsumer.listen", "Listener.wait", "SendFuture.result", "Sql.__init__",
                 "MessageView.__init__", "Message.__init__"):  # fmt: skip
        assert name in CALLS
    assert not [
        name for name in CALLS if name.startswith(("Corrupt", "SendResult.__", "TopicInfo"))
    ]


@contextlib.contextmanager
def in_time(what: str) -> Iterator[None]:
    """Fails when the block takes too long: a call that hangs."""

    def late(*_: object) -> None:
        raise TimeoutError(f"hangs: {what}")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PER_CALL_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_call(world: World, call: Call, hostile: dict[str, str]) -> str | None:
    """Calls with hostile values (argument -> name of the value). Returns what is wrong with the
    outcome: the call may succeed, or raise a StoreError that can be printed.
    """
    arguments = {**world.good(call), **{name: VALUES[kind]() for name, kind in hostile.items()}}
    target = world.make(call)
    if call.method != "__init__":
        target = getattr(target, call.method)
    what = f"{call.name}({', '.join(f'{name}={kind}' for name, kind in hostile.items())})"
    try:
        with in_time(what):
            given = {name: VALUES[kind]() for name, kind in hostile.items()}
            found = target(**{**arguments, **given})
            wrong = check_outcome(world, call, {**arguments, **again(hostile)}, found)
            close(found, world, call)
    except StoreError as error:
        text = str(error)
        return (
            None
            if len(text) < 1000 and "\n" not in text and text.isprintable()
            else (f"{what}: an error of {len(text)} characters: {text[:200]!r}")
        )
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        if "local" in hostile and callable(arguments["local"]):
            return None  # the application's own error is raised
        return f"{what}: {type(error).__name__}: {error!s:.200}"
    return wrong and f"{what}: {wrong}"


def again(hostile: dict[str, str]) -> dict[str, Any]:
    return {name: VALUES[kind]() for name, kind in hostile.items()}


def close(found: object, world: World, call: Call) -> None:
    if isinstance(found, Listener):
        found.stop()
        world.forget_member()
    elif call.method == "__init__" and hasattr(found, "close"):
        found.close()
    if call.method == "close":
        raise AssertionError("close has no arguments")


# -- what was stored is what was sent


def check_outcome(world: World, call: Call, given: dict[str, Any], found: Any) -> str | None:
    if call.kind is not Producer or not call.method.startswith("send"):
        return None
    result = found.result() if isinstance(found, SendFuture) else found
    if not isinstance(result, SendResult):
        world.producer.flush()
        return None
    world.store.await_dispatch()
    sent = given["messages"] if "batch" in call.method else [given["body"]]
    for number, one in enumerate(sent):
        view = world.reader.at(result.topic, result.queue_id, result.queue_offset + number)
        wrong = differs(view, one, given)
        if wrong:
            return wrong
    return None


def differs(view: MessageView, sent: Any, given: dict[str, Any]) -> str | None:
    """What of a stored message is not as it was sent."""
    if isinstance(sent, Message):
        given = {name: getattr(sent, name) for name in ("body", "tags", "keys", "flag")}
        sent = sent.body
    body = str.encode(sent) if isinstance(sent, str) else memoryview(sent).tobytes()
    if view.body != body:
        return f"the body {view.body[:40]!r}"
    if view.flag != operator.index(given.get("flag", 0)):
        return f"flag {view.flag}"
    if given.get("tags") is not None and (view.tags or "") != str.__str__(given["tags"]):
        return f"tags {view.tags!r}"
    keys = given.get("keys")
    if isinstance(keys, list | tuple) and view.keys != list(keys):
        return f"keys {view.keys!r}"
    if isinstance(keys, str) and view.properties.get("KEYS", "") != str.__str__(keys):
        return f"keys {view.keys!r}"
    wanted = given.get("properties")
    if isinstance(wanted, dict) and not wanted.items() <= view.properties.items():
        return f"properties {view.properties!r}"
    if given.get("queue") is not None and view.topic not in {SCHEDULE_TOPIC, TIMER_TOPIC}:
        return None if view.queue_id == given["queue"] else f"queue {view.queue_id}"
    return None


# -- the tests


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arguments_succeed_or_raise_a_store_error(world: World, name: str) -> None:
    call = CALLS[name]
    cost = 6 if name in {"GroupConsumer.listen", "GroupConsumer.__init__"} else 1
    chance = random.Random(name)
    wrong = []
    for argument in call.arguments:
        kinds = list(VALUES)
        if cost > 1:
            kinds = chance.sample(kinds, len(kinds) // cost)
        for kind in kinds:
            found = try_call(world, call, {argument: kind})
            if found:
                wrong.append(found)
    assert not wrong, "\n".join([f"{len(wrong)} of {name}", *wrong[:40]])
    is_still_well(world)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=LONG) for n in range(1, 20))])
def test_pairs_of_hostile_arguments(world: World, seed: int) -> None:
    chance = random.Random(seed)
    calls = [call for call in CALLS.values() if len(call.arguments) > 1]
    wrong = []
    for _ in range(3000):
        call = chance.choice(calls)
        names = chance.sample(list(call.arguments), chance.randint(2, len(call.arguments)))
        found = try_call(world, call, {name: chance.choice(list(VALUES)) for name in names})
        if found:
            wrong.append(found)
    assert not wrong, "\n".join(wrong[:40])
    is_still_well(world)


def is_still_well(world: World) -> None:
    """No process of the store was replaced; it takes and gives messages."""
    assert {actor: world.store.starts(actor) for actor in ACTORS} == dict.fromkeys(ACTORS, 1)
    result = world.producer.send(TOPIC, b"well", queue=0)
    world.store.await_dispatch()
    assert world.reader.at(TOPIC, 0, result.queue_offset).body == b"well"
    assert threading.active_count() < 50
    assert "Traceback" not in world.store.log()


def test_clients_say_that_they_cannot_be_copied(world: World) -> None:
    member = GroupConsumer(world.store.path, "copied", TOPIC)
    listener = member.listen(lambda _: None)
    listener.stop()
    future = world.producer.send_async(TOPIC, b"x")
    for client in (world.producer, world.consumer, world.reader, world.admin, member, listener,
                   future):  # fmt: skip
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(IllegalType, match=f"a {type(client).__name__} cannot be copied"):
                way(client)
    member.close()
    assert future.result().count == 1


def test_no_time_out_is_no_limit(world: World) -> None:
    """What waits without limit ends when the message comes."""
    with (
        Consumer(world.store.path, SPARE, offset="latest") as consumer,
        GroupConsumer(world.store.path, "patient", SPARE) as member,
        Producer(world.store.path, timeout=None) as producer,
    ):
        member.poll(1)
        for poll in (consumer.poll, consumer.poll_arrow, member.poll, member.poll_arrow):
            sender = threading.Timer(0.3, producer.send, (SPARE, b"late"), {"timeout": None})
            sender.start()
            with in_time(str(poll)):
                assert len(poll(timeout=None)) >= 1
            sender.join()
            consumer.poll(100)
            member.poll(100)
        assert producer.send_async(SPARE, b"x").result(None).count == 1
        producer.flush(None)


def test_hostile_values_raise_by_themselves() -> None:
    """The test's own objects do what their names say."""
    ways: dict[str, Callable[[Any], object]] = {
        "raising __index__": operator.index,
        "raising __float__": float,
        "raising __iter__": iter,
    }
    for kind, way in ways.items():
        with pytest.raises(Refused):
            way(VALUES[kind]())
