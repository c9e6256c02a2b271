"""Where `silo tail` begins, what `silo send` takes, and times in every command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import SILO, sentence, silo
from support.harness import eventually

from silomq import Consumer, GroupConsumer, Producer, StoreReader

if TYPE_CHECKING:
    from pathlib import Path


def bodies(store: Path, topic: str, *options: str) -> list[str]:
    return (
        silo("tail", topic, "--body-only", *options, store=store)
        .stdout.decode(errors="replace")
        .splitlines()
    )


@pytest.fixture(scope="module")
def numbers(store: Path) -> str:
    """A topic whose four queues hold the numbers 0 to 99 in turn; 90 and up have the tag new."""
    with Producer(store) as producer:
        for number in range(100):
            tags = "new" if number >= 90 else "old"
            producer.send("numbers", str(number), queue=number % 4, tags=tags)
    return "numbers"


@pytest.mark.parametrize("count", [1, 7, 99, 100, 1000])
def test_the_last_messages_come_in_the_order_of_storing(
    store: Path, numbers: str, count: int
) -> None:
    expected = [str(number) for number in range(100)][-count:]
    assert bodies(store, numbers, "--last", str(count)) == expected


def test_the_last_messages_are_those_that_pass_the_filter(store: Path, numbers: str) -> None:
    old = ("--last", "3", "--tag", "old")
    assert bodies(store, numbers, *old) == ["87", "88", "89"]
    assert bodies(store, numbers, *old, "--queue", "1") == ["81", "85", "89"]
    assert bodies(store, numbers, "--last", "3", "--tag", "none") == []


def test_following_begins_with_the_last_messages(store: Path) -> None:
    with Producer(store) as producer:
        for number in range(5):
            producer.send("followed", str(number))
        command = [*SILO, "tail", "followed", "-f", "--last", "2", "--max", "4", "--body-only"]
        with subprocess.Popen([*command, "--store", str(store)], stdout=subprocess.PIPE) as tail:
            assert tail.stdout is not None
            assert [tail.stdout.readline() for _ in range(2)] == [b"3\n", b"4\n"]
            for number in range(5, 8):
                producer.send("followed", str(number), queue=0)
            assert tail.stdout.read() == b"5\n6\n"
        assert tail.returncode == 0


def test_since_begins_at_a_time(store: Path) -> None:
    with Producer(store) as producer:
        producer.send("since", "before", queue=0)
        middle = producer.send("since", "first", queue=0).store_timestamp
        while time.time_ns() // 1_000_000 <= middle:
            pass
        later = producer.send("since", "later", queue=0).store_timestamp
    assert bodies(store, "since", "--since", "1h") == ["before", "first", "later"]
    assert bodies(store, "since", "--since", str(later)) == ["later"]
    assert bodies(store, "since", "--from", f"@{later}") == ["later"]
    future = ("since", "--since", str(later + 3_600_000))
    for more in ((), ("--group", "since-readers")):
        said = silo("tail", *future, *more, store=store, status=2).stderr.decode()
        assert "is in the future" in said
    member = ("--group", "since-readers", "--since", str(later))
    assert bodies(store, "since", *member) == ["later"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "yesterday"), "'yesterday' is no time since 1970"),
        (("--from", "@never"), "'never' is no time since 1970"),
        (("--from", "-1"), "a queue offset from 0 on, or @TIME"),
        (("--last", "0"), "--last"),
        (("--last", "1", "--since", "1h"), "one of --from, --since and --last"),
        (("--last", "1", "--group", "g"), "--group and --last exclude each other"),
    ],
)
def test_an_impossible_place_is_refused(
    store: Path, numbers: str, options: tuple[str, ...], said: str
) -> None:
    assert said in sentence(silo("tail", numbers, *options, store=store, status=2))


def test_one_syntax_for_times_in_every_command(store: Path, numbers: str) -> None:
    with StoreReader(store) as reader:
        at = reader.at(numbers, 1, 10).store_timestamp
        offset = reader.offset_at_time(numbers, 1, at)
    forms = [str(at), time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at // 1000))]
    found = [int(silo("query", "time", numbers, "1", form, store=store).stdout) for form in forms]
    assert found[0] == offset
    assert found[1] <= offset
    assert int(silo("query", "time", numbers, "1", "1d", store=store).stdout) == 0
    with GroupConsumer(store, "timed", numbers, start="earliest") as member:
        member.poll(1, 5)
    silo("reset-offset", "timed", numbers, f"@{at}", "--queue", "1", store=store)
    silo("reset-offset", "timed", numbers, "@1d", "--queue", "2", store=store)
    said = sentence(silo("reset-offset", "timed", numbers, "@soon", store=store, status=2))
    assert "'soon' is no time since 1970" in said


def test_a_delay_is_a_length_a_time_or_a_level(store: Path) -> None:
    silo("send", "late", "length", "--delay", "1s", store=store)
    in_a_second = str(time.time_ns() // 1_000_000 + 1000)
    silo("send", "late", "time", "--deliver-at", in_a_second, store=store)
    silo("send", "late", "level", "--delay-level", "1", store=store)
    silo("send", "late", "--delay", "1s", stdin=b"line 1\nline 2\n", store=store)
    with Consumer(store, "late") as consumer:
        found: list[bytes] = []

        def all_came() -> bool:
            found.extend(message.body for message in consumer.poll(10, 0.1))
            return len(found) == 5

        eventually(all_came, "all delayed messages came")
    assert sorted(found) == [b"length", b"level", b"line 1", b"line 2", b"time"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--delay", "soon"), "'soon' is no length of time"),
        (("--delay", "5"), "'5' is no length of time"),
        (("--deliver-at", "1h"), "give it with --delay"),
        (("--delay", "1s", "--delay-level", "2"), "one of --delay, --deliver-at"),
        (("--delay", "4d"), "three days"),
    ],
)
def test_an_impossible_delay_is_refused(store: Path, options: tuple[str, ...], said: str) -> None:
    assert said in sentence(silo("send", "late", "x", *options, store=store, status=2))


def test_a_body_may_be_a_file(store: Path, tmp_path: Path) -> None:
    content = os.urandom(1000) + b"\n\n"
    (tmp_path / "body").write_bytes(content)
    silo("send", "files", "--file", str(tmp_path / "body"), store=store)
    silo("send", "files", "--file", "-", stdin=b"two\nlines\n", store=store)
    with Consumer(store, "files") as consumer:
        assert {m.body for m in consumer.poll(10, 5)} <= {content, b"two\nlines\n"}
    said = sentence(silo("send", "files", "--file", str(tmp_path / "no"), store=store, status=2))
    assert "No such file" in said
    assert "one of BODY" in sentence(
        silo("send", "files", "x", "--file", "-", store=store, status=2)
    )


def test_json_lines_carry_keys_tags_and_properties(store: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"body": "körper", "tags": "t", "keys": ["a", "b"], "properties": {"shop": "Lisboa"}},
        {"body_base64": "AAH/", "keys": "single"},
        {"body": "plain"},
        {"body": "late", "delay_ms": 1},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = silo("send", "objects", "--json-lines", "--queue", "0", stdin=text, store=store)
    assert b"4 messages stored" in done.stderr
    eventually(lambda: len(bodies(store, "objects")) == 4, "the delayed message came")
    printed = silo("tail", "objects", "--json", store=store).stdout
    first, second, *rest = [json.loads(line) for line in printed.splitlines()]
    assert (first["body"], first["tags"], first["keys"]) == ("körper", "t", ["a", "b"])
    assert first["properties"]["shop"] == "Lisboa"
    assert (second["body_base64"], second["keys"]) == ("AAH/", ["single"])
    assert sorted(message["body"] for message in rest) == ["late", "plain"]
    silo("send", "copies", "--json-lines", "--queue", "0", stdin=printed, store=store)
    again = silo("tail", "copies", "--json", store=store).stdout.splitlines()
    same = ("body", "body_base64", "tags", "keys")
    before = [json.loads(line) for line in printed.splitlines()]
    assert [[m.get(n) for n in same] for m in map(json.loads, again)] == [
        [m.get(n) for n in same] for m in before
    ]
    assert json.loads(again[0])["properties"]["shop"] == "Lisboa"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "either body or body_base64"),
        ('{"body": 5}', "body is a int, not a str"),
        ('{"body": "x", "tag": "y"}', "unknown name 'tag'"),
        ('{"body": "x", "keys": [1]}', "keys are not a text"),
        ('{"body": "x", "properties": {"a": 1}}', "properties are not an object"),
        ('{"body": "x", "delay_ms": "1"}', "delay_ms is a str"),
        ('{"body": "\\ud800"}', "lone surrogate"),
        ('{"body_base64": "?"}', "body_base64"),
        ('{"body": "x", "delay_ms": -1}', "delay_ms"),
        ('{"body": "x", "tags": "\\ud800"}', "lone surrogate"),
        ('{"body_error": "not LZ4", "body_base64": ""}', "could not be decompressed"),
        ('{"body": "x", "properties": {"UNIQ_KEY": "1"}}', "UNIQ_KEY is set by the store"),
    ],
)
def test_a_bad_json_line_is_named_and_those_before_it_are_sent(
    store: Path, line: str, said: str
) -> None:
    text = f'{{"body": "good"}}\n{line}\n{{"body": "never"}}\n'.encode()
    done = silo("send", "bad-lines", "--json-lines", stdin=text, store=store, status=2)
    summary, error = done.stderr.decode().splitlines()
    assert summary.startswith("1 message stored")
    assert f"line 2: {said}" in error or ("line 2: " in error and said in error)
    assert "never" not in bodies(store, "bad-lines")


def complete(store: Path, *words: str) -> list[str]:
    environment = {
        "_SILO_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("silo", *words)),
        "COMP_CWORD": str(len(words)),
        "SILOMQ_STORE_PATH": str(store),
    }
    done = subprocess.run(
        SILO, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.split()]


def test_topics_and_groups_are_completed(store: Path, tmp_path: Path, numbers: str) -> None:
    silo("topics", "create", "completed-1", store=store)
    silo("topics", "create", "completed-2", store=store)
    names = ["completed-1", "completed-2"]
    eventually(lambda: complete(store, "tail", "complet") == names, "topics.json has both")
    assert complete(store, "topics", "show", "completed-2") == ["completed-2"]
    with GroupConsumer(store, "completed-group", numbers):
        name = ["completed-group"]
        eventually(lambda: complete(store, "groups", "completed-g") == name, "it has a file")
    copy = tmp_path / "stopped"
    shutil.copytree(store / "config", copy / "config")
    assert complete(copy, "groups", "completed-g") == name
    assert complete(tmp_path, "tail", "") == []
    assert complete(tmp_path, "groups", "") == []


def test_a_store_that_is_typed_counts_before_the_environments(store: Path, tmp_path: Path) -> None:
    """On both sides of a subcommand."""
    other = os.environ | {"SILOMQ_STORE_PATH": str(tmp_path)}
    silo("topics", "create", "typed", store=store)
    for words in (
        ["--store", str(store), "show", "typed"],
        ["show", "typed", "--store", str(store)],
    ):
        done = subprocess.run(
            [*SILO, "topics", *words], env=other, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    deleted = ["--store", str(store), "delete", "typed", "--yes"]
    subprocess.run([*SILO, "topics", *deleted], env=other, capture_output=True, check=True)
    assert b"typed" not in silo("topics", store=store).stdout


def test_a_number_that_is_none_is_refused(store: Path, numbers: str) -> None:
    for words in (
        ["status", "--watch", "--interval", "nan"],
        ["send", "x", "y", "--timeout", "nan"],
        ["reset-offset", "g", numbers, "9" * 5000],
    ):
        assert "internal error" not in silo(*words, store=store, status=2).stderr.decode()


def test_status_can_be_watched(store: Path) -> None:
    command = [*SILO, "status", "--watch", "--interval", "0.1", "--json", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        first, second = (json.loads(watch.stdout.readline()) for _ in range(2))
        watch.terminate()
    assert first["rates"] == {}
    assert second["rates"]["messages_per_second"] >= 0
    assert second["state"] == "RUNNING"
