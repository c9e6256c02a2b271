"""Limits of one user: rings, topics, groups. One user is at its limit, and the other is not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import SILO, silo
from support.harness import WAIT_S, StoreProcess, eventually
from support.other_users import GROUP, OTHER, USER, GroupStore, reachable_folder, run_as

from silomq import Admin, GroupConsumer, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may be other users")
SETTINGS: dict[str, Any] = {
    "socket_group": GROUP,
    "ring_size": 65536,
    "max_ring_bytes_per_uid": 1 << 20,
    "max_topics_per_uid": 20,
    "max_groups_per_uid": 10,
}


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    with reachable_folder() as folder, GroupStore(folder / "store", **SETTINGS) as found:
        yield found


def said_by(uid: int, code: str, store: StoreProcess) -> list[str]:
    with run_as(uid, GROUP, code, store.path) as program:
        out, _ = program.communicate(timeout=WAIT_S)
        assert program.returncode == 0
        return out.splitlines()


RINGS = """
kept = []
try:
    while True:
        kept.append(Producer(sys.argv[1], ring_size=262144))
        kept[-1].send("t", b"x")
except IllegalMessage as refused:
    print(len(kept), refused.status.name, refused.why)
kept.pop().close()
while len(kept) < 4:  # append lets go of the ring a moment later
    try:
        kept.append(Producer(sys.argv[1], ring_size=131072))
    except IllegalMessage:
        pass
print("smaller", flush=True)
sys.stdin.read()
"""


def test_rings_of_a_user_have_so_many_bytes(store: StoreProcess) -> None:
    with run_as(USER, GROUP, RINGS, store.path, stdin=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == (
            f"4 SERVICE_NOT_AVAILABLE a ring of 262144 bytes: user {USER} has rings of 1048576 "
            "bytes, and may have 1048576: close producers, ask for smaller rings (ring_size), or "
            "raise max_ring_bytes_per_uid\n"
        )
        assert first.stdout.readline() == "smaller\n"
        with run_as(OTHER, GROUP, RINGS, store.path, stdin=subprocess.DEVNULL) as second:
            assert second.stdout is not None
            assert second.stdout.readline().startswith("4 SERVICE_NOT_AVAILABLE")
            second.communicate(timeout=WAIT_S)
        with Producer(store.path, ring_size=4 << 20) as producer:  # root has no limit
            producer.send("t", b"x")
            with Admin(store.path) as admin:
                users = {one["uid"]: one for one in admin.status()["users"]}
        assert users[USER]["sessions"] == 4
        assert users[USER]["ring_bytes"] == 3 * 262144 + 131072
        assert users[USER]["in_flight_bytes"] == 0
        assert users[0]["ring_bytes"] == 4 << 20
        table = silo("status", store=store.path).stdout.decode()
        assert f"{USER}" in table
        assert f"{3 * 262144 + 131072:,}" in table
        first.communicate(timeout=WAIT_S)


TOPICS = """
import time
made, began = 0, time.monotonic()
with Producer(sys.argv[1]) as producer:
    try:
        while True:
            producer.open_topic(f"flood{os.getuid()}-{made}")
            made += 1
    except IllegalMessage as refused:
        print(made, refused.status.name, refused.why)
    producer.send("there_already", b"x")
print("sends")
"""


def test_a_flood_of_topics_ends_at_the_users_limit(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.open_topic("there_already")
    told = f"20 SERVICE_NOT_AVAILABLE topic flood{USER}-20: user {USER} has made 20 topics"
    first = said_by(USER, TOPICS, store)
    assert first[0].startswith(told)
    assert first[0].endswith("delete some, or raise max_topics_per_uid")
    assert first[1] == "sends"
    # The registry's successor, and a store that starts again, remember.
    store.replace("registry")
    assert said_by(USER, TOPICS.replace("flood", "other"), store)[0].startswith("0 SERVICE")
    assert said_by(OTHER, TOPICS, store)[0].startswith("20 SERVICE_NOT_AVAILABLE")
    with Producer(store.path) as producer:
        for number in range(30):
            producer.open_topic(f"own{number}")
    with Admin(store.path) as admin:
        assert admin.delete_topic(f"flood{USER}-3")
        users = {one["uid"]: one for one in admin.status()["users"]}
        assert (users[USER]["topics"], users[OTHER]["topics"]) == (19, 20)
    assert said_by(USER, TOPICS.replace("flood", "other"), store)[0].startswith("1 SERVICE")


GROUPS = """
made = 0
with Producer(sys.argv[1]) as producer:
    producer.open_topic("t")
try:
    while True:
        kind = {"model": "broadcasting"} if made % 2 else {}
        GroupConsumer(sys.argv[1], f"flood{os.getuid()}-{made}", "t", **kind).close()
        made += 1
except IllegalMessage as refused:
    print(made, refused.status.name, refused.why)
GroupConsumer(sys.argv[1], f"flood{os.getuid()}-0", "t").close()
print("joins")
"""


def test_a_flood_of_groups_ends_at_the_users_limit(store: StoreProcess) -> None:
    for uid in (USER, OTHER):
        told, joins = said_by(uid, GROUPS, store)
        assert told.startswith(f"10 SERVICE_NOT_AVAILABLE group flood{uid}-10: user {uid} has made")
        assert told.endswith("delete some, or raise max_groups_per_uid")
        assert joins == "joins"
    for number in range(12):
        with GroupConsumer(store.path, f"own{number}", "t"):
            pass
    store.stop()
    with store:
        more = GROUPS.replace("flood{os.getuid()}-{made}", "more{made}")
        assert said_by(USER, more, store)[0].startswith("0 SERVICE")
        with Admin(store.path) as admin:
            users = {one["uid"]: one for one in admin.status()["users"]}
            assert users[USER]["groups"] == 10
            admin.delete_group(f"flood{USER}-4")
        assert said_by(USER, GROUPS.replace("made = 0", "made = 20"), store)[0].startswith("21 ")


ENDLESS = """
print("ready", flush=True)
with Producer(sys.argv[1]) as producer:
    while True:
        for number in range(10000):
            try:
                producer.open_topic(f"flood{number}")
            except IllegalMessage:
                pass
"""


def test_others_are_served_beside_a_flood_of_topics(store: StoreProcess) -> None:
    with run_as(USER, GROUP, ENDLESS, store.path) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            for number in range(20):
                with Producer(store.path) as producer:
                    producer.send(f"mine{number}", b"x")
                time.sleep(0.01)
            assert program.poll() is None
        finally:
            program.kill()
    with Admin(store.path) as admin:
        names = [topic.topic for topic in admin.topics()]
    assert sum(name.startswith("flood") for name in names) == 20
    assert sum(name.startswith("mine") for name in names) == 20


class ServedStore(StoreProcess):
    """A store with a file of settings, which it reads again."""

    @property
    def command(self) -> list[str]:
        where = ["--store", str(self.path), "--config", str(self.path.parent / "settings.toml")]
        return [*SILO, "serve", *where]


class ServedGroupStore(GroupStore, ServedStore):
    """The same, reachable for a group."""


def test_a_limit_changes_while_the_store_runs() -> None:
    with reachable_folder() as folder:
        text = f'socket_group = "{GROUP}"\nmapped_file_size_commit_log = "1MiB"\n'
        settings = folder / "settings.toml"
        settings.write_text(f"{text}max_topics_per_uid = 3\n")
        with ServedGroupStore(folder / "store", socket_group=GROUP) as store:
            with Producer(store.path) as producer:
                producer.open_topic("there_already")
            assert said_by(USER, TOPICS, store)[0].startswith("3 SERVICE_NOT_AVAILABLE")
            registry = store.pid("registry")
            settings.write_text(f"{text}max_topics_per_uid = 5\n")
            store.running.send_signal(signal.SIGHUP)
            eventually(lambda: store.is_ready("registry", but_not=registry), "it is replaced")
            told = said_by(USER, TOPICS.replace("flood", "more"), store)[0]
            assert told.startswith(f"2 SERVICE_NOT_AVAILABLE topic more{USER}-2: user {USER} has")
