"""Kills exactly between two publish steps of append and of reput: the exactly-once argument of
`store/commitlog` and `store/dispatch`, step by step.

The store runs a build whose kernels die at a named point (`SILO_FAULT` in shm/words.h), once. The
load needs no luck: it passes every point more often than the test waits for.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.frames import LIGHT
from support.harness import LONG, StoreProcess, eventually
from support.kill_points import ROOT, Fault, points_in
from support.load.messages import body_of
from support.load.sender import Sender

from silomq import Admin, Consumer, Message, Producer
from silomq.store.errors import IllegalMessage
from silomq.store.index.file import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

TOPICS = ("alpha", "beta")
CLIENTS = 64  # max_sessions: the store's own session follows
#: Files so small that the load fills several of each kind.
TINY: dict[str, Any] = {
    "max_sessions": CLIENTS,
    "mapped_file_size_commit_log": 65536,
    "max_message_size": 16384,
    "mapped_file_size_consume_queue": 20480,
    "max_hash_slot_num": 50,
    "max_index_num": 701,  # not a multiple of three keys: records lie in two files
}
#: The passes at which the process dies: the first, one in the middle of things, a late one.
POINTS: dict[str, tuple[int, ...]] = {
    "append:copied": (1, 20, 333),
    "append:patched": (1, 20, 333),
    "append:counted": (1, 20, 333),
    "append:results": (1, 20, 90),
    "append:written": (1, 20, 90),
    "append:wrote": (1, 20, 90),
    "append:tail": (1, 20, 90),
    "append:blank": (1, 2, 3),
    "reput:queue": (1, 18, 250),
    "reput:entry": (1, 80, 1000),
    "reput:slot": (1, 80, 1000),
    "reput:max": (1, 18, 250),
    "reput:progress": (1, 3, 8),
    "reput:generation": (1, 3, 8),
    "reput:dispatched": (1, 3, 8),
    "reput:published": (1, 3, 8),
}
#: Those that only messages for light queues (LMQ) pass, and the pass at which the process dies.
LIGHT_POINTS = {"append:light": 50, "reput:light": 41, "reput:lightmax": 12}
LONG_PASSES = {
    "append": (2, 3, 5, 8, 13, 21, 34, 55),
    "append:blank": (1, 2, 3),
    "reput": (2, 3, 5, 6, 7),
}


def _cases() -> list[ParameterSet]:
    """(point, pass, whether the load ends with the death): the short form, then what the long form
    adds.
    """
    cases = []
    for point, passes in POINTS.items():
        more = LONG_PASSES.get(point, LONG_PASSES[point.partition(":")[0]])
        cases += [pytest.param(point, n, n == passes[1], id=f"{point}-{n}") for n in passes]
        cases += [
            pytest.param(point, n, end, marks=LONG, id=f"{point}-{n}{'-end' * end}")
            for n in more
            for end in (False, True)
            if n not in passes
        ]
    return cases


def senders_to(store: StoreProcess, sent: Sent) -> list[Sender]:
    """Two producers. Every message has three keys, one of them shared by many."""
    return [
        Sender(
            store.path,
            who,
            TOPICS,
            kind="keyed",
            queues=2,
            sent=sent,
            ring_size=65536,
            timeout=15.0,
        )
        for who in range(2)
    ]


def load(store: StoreProcess) -> Sent:
    """Two producers in turn."""
    sent = Sent()
    senders = senders_to(store, sent)
    for turn in range(16):
        for sender in senders:
            sender.send(3)
            # Dispatch catches up, and so publishes, more often than the load alone makes it.
            store.await_dispatch()
        senders[turn % 2].send_window(20)
        senders[turn % 2].send_batch(10)
    for sender in senders:
        sender.close()
    return sent


def load_until(store: StoreProcess, is_over: Callable[[], bool]) -> Sent:
    """Two producers in turn, one message at a time, each dispatched before the next. Nothing comes
    after the end, so nothing hides what a dead process has left undone.
    """
    sent = Sent()
    senders = senders_to(store, sent)
    while not is_over() and senders[-1].next < 1000:
        for sender in senders:
            if not is_over():
                sender.send()
                store.await_dispatch()
    for sender in senders:
        sender.close()
    return sent


@pytest.fixture
def run_to_death(fault_build: Path, tmp_path: Path) -> Callable[..., StoreProcess]:
    """Runs the load against a store that dies at a point; the store, stopped and checked."""

    def run(point: str, passes: int, ends: bool, **settings: Any) -> StoreProcess:
        fault = Fault(fault_build, tmp_path, point, passes).arm()
        environ = fault.environ
        with StoreProcess(tmp_path / "store", environ=environ, **TINY, **settings) as store:
            sent = load_until(store, fault.happened) if ends else load(store)
            fault.assert_happened()
            eventually(lambda: store.starts(fault.actor) > 1, "the dead process is replaced")
            starts = {name: store.starts(name) for name in store.pids()}
            assert starts == {name: 2 if name == fault.actor else 1 for name in starts}
            check_store(store, sent, TOPICS)
            store.stop()
        return store

    return run


@pytest.mark.parametrize(("point", "passes", "ends"), _cases())
def test_every_message_is_there_once(
    run_to_death: Callable[..., StoreProcess], point: str, passes: int, ends: bool
) -> None:
    check_files(run_to_death(point, passes, ends))


@pytest.mark.parametrize("point", ["copied", "written", "wrote"])
@pytest.mark.parametrize("passes", [1, 20])
def test_staged_messages_are_there_once(
    run_to_death: Callable[..., StoreProcess], point: str, passes: int
) -> None:
    """Under SYNC_FLUSH append makes a batch in its own memory, which dies with it."""
    check_files(run_to_death(f"append:{point}", passes, False, flush_disk_type="SYNC_FLUSH"))


@pytest.mark.parametrize("point", ["append:copied", "append:results"])
def test_no_refused_message_is_there(fault_build: Path, tmp_path: Path, point: str) -> None:
    """Append dies with a message in the log that it has not published. The right to send it is
    taken back before there is a successor, which refuses it. No later start finds it in the log.
    """
    fault = Fault(fault_build, tmp_path, point, 2).arm()
    sent = Sent()
    with StoreProcess(tmp_path / "store", environ=fault.environ, **TINY) as store:
        with Admin(store.path) as admin, Producer(store.path) as producer:
            admin.create_topic("alpha", 1)
            sent.answered(producer.send("alpha", body_of(0, 0)), 0, 0)
            assert writers(store, "alpha") == 1
            store.running.send_signal(signal.SIGSTOP)  # nobody replaces append
            sent.refuse(0, 1, "alpha", 0)
            refused = producer.send_async("alpha", body_of(0, 1))
            eventually(fault.happened, "append has died")
            change = threading.Thread(
                target=admin.update_topic, args=("alpha",), kwargs={"perm": 4}
            )
            change.start()
            eventually(lambda: writers(store, "alpha") == 0, "the right is taken back")
            store.running.send_signal(signal.SIGCONT)
            change.join()
            with pytest.raises(IllegalMessage, match="taken back"):
                refused.result(20)
        store.crash()
        store.start()
        check_store(store, sent, ["alpha"])
        store.stop()
        check_files(store)


def test_the_index_header_counts_what_is_dispatched(fault_build: Path, tmp_path: Path) -> None:
    """Reput dies right behind its publication of `dispatched`. RocketMQ's tools read an index
    file's header, and whoever waits for `dispatched` finds it there.
    """
    fault = Fault(fault_build, tmp_path, "reput:dispatched", 2).arm()
    with StoreProcess(tmp_path / "store", environ=fault.environ, **TINY) as store:
        with Admin(store.path) as admin, Producer(store.path) as producer:
            admin.create_topic("alpha", 1)
            producer.send("alpha", b"first", keys="k")
            store.await_dispatch()
            store.running.send_signal(signal.SIGSTOP)  # nobody replaces reput
            last = producer.send("alpha", b"last", keys="k")
            eventually(fault.happened, "reput has died")
            store.await_dispatch()
            (file,) = (store.path / "index").iterdir()
            header = HEADER.unpack(file.read_bytes()[: HEADER.size])
            store.running.send_signal(signal.SIGCONT)
        assert header[3] == last.physical_offset


def writers(store: StoreProcess, topic: str) -> int:
    """How many clients' sessions may write to the topic."""
    table = store.table
    found = table.find(topic)
    assert found is not None
    byte, bit = divmod(found.index, 8)
    grants = [table.view[table._grant_range(session)[0] + byte] for session in range(CLIENTS)]
    return sum(grant >> bit & 1 for grant in grants)


@pytest.mark.parametrize(("point", "passes"), LIGHT_POINTS.items())
def test_light_queues_have_each_message_once_whoever_dies_where(
    fault_build: Path, tmp_path: Path, point: str, passes: int
) -> None:
    """The files are what the twin makes of the log, the log has each message once, and the offsets
    that messages say are those at which they lie.
    """
    fault = Fault(fault_build, tmp_path, point, passes).arm()
    light = {**TINY, "enable_lmq": "true", "enable_multi_dispatch": "true"}
    bodies = [b"%d" % i for i in range(120)]
    with StoreProcess(tmp_path / "store", environ=fault.environ, **light) as store:
        with Producer(store.path, timeout=15.0) as producer:
            for at in range(0, len(bodies), 3):
                names = LIGHT if at % 2 else LIGHT[:1]
                properties = {"INNER_MULTI_DISPATCH": ",".join(names)}
                batch = [Message(body, properties=properties) for body in bodies[at : at + 3]]
                producer.send_batch("alpha", batch, queue=0)
                store.await_dispatch()
        fault.assert_happened()
        with Consumer(store.path, LIGHT[0], check_crc=True) as consumer:
            assert [view.body for view in consumer.poll(1000, timeout=10)] == bodies
        store.stop()
        check_files(store)


def test_every_point_of_the_kernels_is_tried() -> None:
    kernels = [*(ROOT / "store").rglob("*.pyx"), *(ROOT / "store").rglob("*.h")]
    assert points_in(kernels) == {*POINTS, *LIGHT_POINTS}
