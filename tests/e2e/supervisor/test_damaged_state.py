"""Damaged files of a store's state: a start works, or refuses with status 5 and names the file."""

from __future__ import annotations

import os
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import LONG, WAIT_S, StoreProcess, connect, eventually, lives
from support.small_settings import SMALL
from support.state_damage import damage

from silomq import Admin, Consumer, GroupConsumer, Producer, StoreError, TransactionProducer
from silomq.client.session import Connection
from silomq.conf.settings import load
from silomq.shm.protocol.pops import SetMode
from silomq.store.recovery.layout import known_sizes
from silomq.supervisor.__main__ import explain
from silomq.supervisor.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CORRUPT = 5
KEPT = 30
SETTINGS = {**SMALL, "flush_consumer_offset_interval_ms": 1000}


def fill(path: Path) -> None:
    """A store with everything that has a file of its own, killed in the middle of it."""
    store = StoreProcess(path, base=SETTINGS)
    with store:
        with Admin(path) as admin:
            for topic in ("kept", "gone", "other"):
                admin.create_topic(topic, 2)
            admin.delete_topic("gone")
        with Producer(path) as producer:
            for number in range(KEPT):
                producer.send("kept", str(number))
            # More than a file of the log: it gets a seal.
            for _ in range(12):
                producer.send("other", b"x" * 100_000)
            producer.send("other", b"later", delay_level=18)
            producer.send("other", b"later", deliver_at=int(time.time() + 3600) * 1000)
        consume(GroupConsumer(path, "g", "kept", start="earliest", auto_ack=False))
        consume(
            GroupConsumer(
                path, "b", "kept", start="earliest", auto_ack=False,
                model="broadcasting", instance="i",
            )
        )  # fmt: skip
        with GroupConsumer(
            path, "p", "kept", start="earliest", mode="pop", auto_ack=False
        ) as worker:
            worker.ack(worker.poll(1, 10.0))  # what else it has stays leased
        link = Connection(path)
        link.request(SetMode("kept", "p", "POP"))
        link.close()
        with TransactionProducer(path, "t") as producer:
            producer.begin("other", b"ended").commit()
            producer.begin("other", b"open")
        eventually(lambda: list((path / "silomq/seals").iterdir()), "a file is sealed")
        eventually(lambda: list((path / "silomq/timer").iterdir()), "the timer is in its file")
        eventually(lambda: '"kept@g"' in text(path / "config/consumerOffset.json"), "saved")
        store.stop()
        store.start()
        member = GroupConsumer(path, "g", "kept", auto_ack=False)
        member.poll(1, 10.0)
        store.crash()  # the member's ack file stays
        member.close()
    named = ("silomq/groups", "silomq/pop", "silomq/schedule", "silomq/transactions")
    for actor_file in (*named, "config/messageRequestMode.json", "config/topics.json.bak"):
        assert (path / actor_file).exists()


def consume(group: GroupConsumer) -> None:
    with group:
        for message in group.poll(5, 10.0):
            group.ack(message)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def state_files(path: Path) -> list[Path]:
    """All files of the store's state, without log, queues and index."""
    names = [
        each
        for folder in ("config", "silomq")
        for each in sorted((path / folder).rglob("*"))
        if each.is_file()
    ]
    return [*names, path / "checkpoint", path / "abort", path / "lock"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "store"
    fill(path)
    return path


def starts_or_refuses(path: Path, where: Path, how: str) -> str:
    """Starts the store; its messages must be there. "" if it ran, or what it said and ended."""
    store = StoreProcess(path, base=SETTINGS)
    store.log_path.unlink(missing_ok=True)
    what = f"{how} of {where.relative_to(path)}"
    process = store.launch()
    try:
        try:
            connect(path, process).close()
        except AssertionError:
            assert process.poll() is not None, f"{what}: it hangs\n{store.log()}"
            said = store.log()
            assert process.returncode == CORRUPT, f"{what}: {process.returncode}\n{said}"
            assert "Traceback" not in said, f"{what}\n{said}"
            assert where.name.removesuffix(".bak") in said.splitlines()[-1], f"{what}\n{said}"
            return said
        eventually(
            lambda: store.all_ready() or process.poll() is not None, f"{what}: actors are ready"
        )
        assert process.poll() is None, f"{what}: {process.returncode}\n{store.log()}"
        with Consumer(path, "kept") as consumer:
            found: set[bytes] = set()
            while len(found) < KEPT:
                messages = consumer.poll(100, 10.0)
                assert messages, f"{what}: messages are gone\n{store.log()}"
                found |= {message.body for message in messages}
        with Producer(path) as producer:
            producer.send("other", b"new")
        with GroupConsumer(path, "h", "kept", start="earliest") as group:
            assert group.poll(1, 10.0), f"{what}: groups do not work"
        family = store.family()
        process.terminate()
        assert process.wait(WAIT_S) == 0, f"{what}\n{store.log()}"
        assert not [pid for pid in family if lives(pid)]
        assert "Traceback" not in store.log(), f"{what}\n{store.log()}"
        assert "actor died" not in store.log(), f"{what}\n{store.log()}"
        return ""
    finally:
        store.clean_up()


@pytest.mark.parametrize("cases", [5, pytest.param(1500, marks=(*LONG, pytest.mark.timeout(7200)))])
def test_damaged_state_is_set_aside_or_refused_by_name(
    good: Path, tmp_path: Path, cases: int
) -> None:
    seed = int(os.environ.get("SILOMQ_SEED", "9"))
    print(f"SILOMQ_SEED={seed}")
    refused = 0
    for case in range(cases):
        numbers = random.Random(f"{seed}/{case}")
        path = tmp_path / "store"
        shutil.copytree(good, path, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        files = state_files(path)
        where = files[case % len(files)] if cases > len(files) else numbers.choice(files)
        how = f"case {case}: {damage(where, numbers)}"
        refused += bool(starts_or_refuses(path, where, how))
        shutil.rmtree(path)
    assert refused < cases / 2


def a_link(place: Path, away: Path) -> None:
    place.rename(away)
    place.symlink_to(away)


def another_kind(place: Path, away: Path) -> None:
    place.rename(away)
    if away.is_dir():
        place.touch()
    else:
        place.mkdir()


@pytest.mark.parametrize("harm", [a_link, another_kind])
def test_each_name_is_a_file_or_a_folder_of_the_stores_own(
    good: Path, tmp_path: Path, harm: Callable[[Path, Path], None]
) -> None:
    names = [place.relative_to(good) for place in good.rglob("*") if not place.is_socket()]
    assert len(names) > 30
    for number, name in enumerate(names):
        path = tmp_path / "store"
        shutil.copytree(good, path, ignore=shutil.ignore_patterns("*.sock"))
        harm(path / name, tmp_path / f"away-{number}")
        pairs = [f"{key}={value}" for key, value in {**SETTINGS, "store_path": path}.items()]
        with pytest.raises((StoreError, OSError)) as caught:
            prepare(load(overrides=pairs, remembered=known_sizes))
        assert isinstance(caught.value, StoreError | OSError)
        status, said = explain(caught.value)
        assert status == CORRUPT, f"{name}: {said}"
        assert str(path / name) in said, said
        shutil.rmtree(path)


def test_what_a_member_writes_into_its_ack_file_stops_no_later_start(tmp_path: Path) -> None:
    """It may write any number there. RocketMQ's file takes no offset of 2^63 or more."""
    path = tmp_path / "store"
    with StoreProcess(path, base=SETTINGS) as store:
        with Producer(path) as producer:
            for number in range(KEPT):
                producer.send("kept", str(number))
        with GroupConsumer(path, "g", "kept", start="earliest", auto_ack=False) as member:
            assert member.poll(1, 10.0)
            for words in (path / "silomq/groups").glob("*[0-9]"):  # the newest one counts
                with words.open("r+b") as file:
                    file.write(b"\xff" * words.stat().st_size)
            eventually(lambda: str(2**63 - 1) in text(path / "config/consumerOffset.json"), "saved")
        for _ in range(2):
            store.stop()
            store.start()
        assert "unreadable" not in store.log()
        with GroupConsumer(path, "g", "kept", auto_ack=False), Producer(path) as producer:
            producer.send("kept", b"after")
