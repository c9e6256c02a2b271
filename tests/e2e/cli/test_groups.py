"""`silo groups`, `reset-offset`, `delete-group` and `tail --group`, as a user runs them."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.commands import SILO, sentence, silo
from support.harness import eventually

from silomq import Admin, GroupConsumer, Producer

if TYPE_CHECKING:
    from pathlib import Path

_names = itertools.count()


@pytest.fixture
def topic(store: Path) -> str:
    """A topic of two queues with ten messages in each: 0, 2, 4 ... and 1, 3, 5 ..."""
    name = f"orders{next(_names)}"
    with Admin(store) as admin:
        admin.create_topic(name, 2)
    with Producer(store) as producer:
        for i in range(20):
            producer.send(name, b"%d" % i, queue=i % 2, tags="even" if i % 2 == 0 else "odd")
    return name


def rows(output: bytes) -> list[list[str]]:
    return [line.split() for line in output.decode().splitlines()]


def bodies(output: bytes) -> list[int]:
    return sorted(int(line) for line in output.split())


def test_progress_and_members_are_shown(store: Path, topic: str) -> None:
    group = f"g{topic}"
    with GroupConsumer(store, group, topic, start="earliest", auto_ack=False) as member:
        found = member.poll(5, 5.0)
        member.ack(found)
        session = member._reader._link.session
        listed = json.loads(silo("groups", "--json", store=store).stdout)
        mine = next(row for row in listed if row["group"] == group)
        assert mine == {
            "group": group, "members": 1, "queues": 3, "lag": 20 - len(found),
            "leased": 0, "oldest_lease_ms": 0,
        }  # fmt: skip
        assert [group, "1", "3", str(20 - len(found))] in rows(silo("groups", store=store).stdout)
        shown = json.loads(silo("groups", group, "--json", store=store).stdout)
        assert shown["lag"] == 20 - len(found)
        assert shown["members"] == [
            {"session": session, "model": "clustering", "instance": "", "queues": 3}
        ]
        queue = next(q for q in shown["queues"] if (q["topic"], q["queue_id"]) == (topic, 0))
        assert (queue["end"], queue["lag"]) == (10, 10 - queue["offset"])
        assert queue["member"] == session
        table = silo("groups", group, store=store).stdout.decode()
        assert f"Group {group}" in table
        offset = queue["offset"]
        expected = [topic, "0", "10", str(offset), str(10 - offset), f"{session:x}"]
        assert expected in rows(table.encode())
        assert [f"{session:x}", "clustering", "-", "3"] in rows(table.encode())
        assert f"Diff total: {20 - len(found)}\n" in table
    with Admin(store) as admin:
        eventually(lambda: not admin.group(group).members, "it left")
    rest = json.loads(silo("groups", group, "--json", store=store).stdout)
    assert rest["members"] == []
    assert {q["member"] for q in rest["queues"]} == {0}


def test_tail_shares_and_acknowledges(store: Path, topic: str) -> None:
    options = (topic, "--group", f"t{topic}", "--body-only")
    first = silo("tail", *options, "--max", "7", store=store)
    rest = silo("tail", *options, store=store)
    assert len(bodies(first.stdout)) == 7
    assert bodies(first.stdout + rest.stdout) == list(range(20))
    assert silo("tail", *options, store=store).stdout == b""
    some = silo("tail", topic, "--group", f"s{topic}", "--tag", "odd", "--json", store=store)
    messages = [json.loads(line) for line in some.stdout.splitlines()]
    assert sorted(int(m["body"]) for m in messages) == list(range(1, 20, 2))
    assert silo("groups", f"s{topic}", "--json", store=store).stdout.count(b'"lag": 0') == 4
    late = silo("tail", topic, "--group", f"l{topic}", "--from", "latest", store=store)
    assert late.stdout == b""


def test_tail_follows_as_a_member(store: Path, topic: str) -> None:
    command = [*SILO, "tail", topic, "--group", f"f{topic}", "-f", "--body-only"]
    command += ["--from", "earliest", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        old = [int(process.stdout.readline()) for _ in range(20)]
        assert sorted(old) == list(range(20))
        with Producer(store) as producer:
            producer.send(topic, "20")
        assert process.stdout.readline() == b"20\n"
        with Admin(store) as admin:
            eventually(lambda: admin.group(f"f{topic}").lag == 0, "it is acknowledged", 5.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_group_is_set_to_another_offset(store: Path, topic: str) -> None:
    group = f"r{topic}"
    read = (topic, "--group", group, "--body-only")
    assert len(bodies(silo("tail", *read, store=store).stdout)) == 20
    said = silo("reset-offset", group, topic, "7", "--queue", "1", store=store)
    assert said.stderr == f"{group} continues at offset 7 of queue 1 of {topic}\n".encode()
    assert bodies(silo("tail", *read, store=store).stdout) == [15, 17, 19]
    done = silo("reset-offset", group, topic, "earliest", "--json", store=store)
    assert json.loads(done.stdout) == {
        "group": group,
        "topic": topic,
        "offsets": {"0": 0, "1": 0},
    }
    silo("reset-offset", group, topic, "latest", "--queue", "0", store=store)
    assert bodies(silo("tail", *read, store=store).stdout) == list(range(1, 20, 2))
    silo("reset-offset", group, topic, "@0", store=store)
    assert len(bodies(silo("tail", *read, store=store).stdout)) == 20
    silo("reset-offset", group, topic, "@99999999999999", store=store, status=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reset-offset", "g", "nowhere", "earliest"), "topic nowhere does not exist"),
        (("reset-offset", "g", "TOPIC", "soon"), "'soon' is not 'earliest', 'latest'"),
        (("reset-offset", "g", "TOPIC", "11"), "offset 11, it has 0 to 10"),
        (("reset-offset", "", "TOPIC", "0"), "group"),
        (("reset-offset", "g", "TOPIC", "earliest", "--queue", "9"), "queue 9 of topic TOPIC"),
        (("groups", "nobody"), "there is no consumer group nobody"),
        (("tail", "nowhere", "--group", "g"), "topic nowhere does not exist"),
        (("tail", "TOPIC", "--group", "no/group"), "group"),
        (("tail", "TOPIC", "--group", "g", "--queue", "1"), "--group and --queue exclude"),
        (("tail", "TOPIC", "--group", "g", "--from", "3"), "--from earliest, latest"),
    ],
)
def test_bad_input_is_one_sentence(
    store: Path, topic: str, words: tuple[str, ...], said: str
) -> None:
    arguments = [word.replace("TOPIC", topic) for word in words]
    why = sentence(silo(*arguments, store=store, status=2))
    assert said.replace("TOPIC", topic) in why


def test_a_group_is_forgotten(store: Path, topic: str) -> None:
    group = f"d{topic}"
    with GroupConsumer(store, group, topic, start="earliest") as member:
        member.poll(1, 5.0)
        assert "has members" in sentence(silo("delete-group", group, store=store, status=2))
    with Admin(store) as admin:
        eventually(lambda: not admin.group(group).members, "it left")
    gone = silo("delete-group", group, store=store)
    assert gone.stderr == f"group {group} is deleted\n".encode()
    sentence(silo("groups", group, store=store, status=2))
    again = silo("delete-group", group, "--json", store=store)
    assert json.loads(again.stdout) == {"group": group, "deleted": False}


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    for words in (("groups",), ("delete-group", "g"), ("reset-offset", "g", "t", "earliest")):
        why = sentence(silo(*words, store=tmp_path, status=1))
        assert "no store runs there" in why
