"""`silo send`, `tail`, `topics` and `status` against a running store."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import SILO, sentence, silo
from support.harness import PYTHON, WAIT_S

from silomq import Consumer, Producer

if TYPE_CHECKING:
    from pathlib import Path

BAD_TOPICS = ["", "a/b", "..", "a\0b", "a b", "größe", "名", "x" * 128, "a\nb", "-.-"]
COMMANDS = ["serve", "send", "tail", "status", "topics", "clean", "config"]


def messages(store: Path, *arguments: str) -> list[dict[str, Any]]:
    out = silo("tail", *arguments, "--json", store=store).stdout
    return [json.loads(line) for line in out.splitlines()]


def in_python(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    """For arguments that no command line can hold."""
    code = f"import sys; from silomq.cli.main import main; sys.exit(main({arguments!r}))"
    return subprocess.run(
        [*PYTHON, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


def test_one_message_there_and_back(store: Path) -> None:
    words = ["--tags", "hot", "--keys", "k1", "--keys", "k2", "--property", "shop=Lisboa = 1"]
    sent = json.loads(silo("send", "one", "körper ☕", *words, "--json", store=store).stdout)
    assert sent["status"] == "PUT_OK"
    assert sent["topic"] == "one"
    (found,) = messages(store, "one")
    assert found["body"] == "körper ☕"
    assert found["tags"] == "hot"
    assert found["keys"] == ["k1", "k2"]
    assert found["properties"]["shop"] == "Lisboa = 1"
    same = ("queue_id", "queue_offset", "physical_offset", "message_id", "offset_message_id")
    assert {name: found[name] for name in same} == {name: sent[name] for name in same}
    line = silo("tail", "one", store=store).stdout.decode()
    assert line.startswith(f"{sent['queue_id']}@{sent['queue_offset']}  ")
    assert line.endswith("  hot  k1,k2  körper ☕\n")


def test_readable_result_names_place_and_id(store: Path) -> None:
    sent = silo("send", "place", "x", "--queue", "3", store=store).stdout.decode().split()
    assert sent[:2] == ["PUT_OK", "place[3]@0"]
    assert messages(store, "place")[0]["message_id"] == sent[2]


def test_binary_bodies_are_escaped(store: Path) -> None:
    silo("send", "bin", "--queue", "0", store=store, stdin=b"\xff\x00\x1b[31m\n\x1b]0;t\x07\n")
    first, second = messages(store, "bin")
    assert first["body_base64"] == "/wAbWzMxbQ=="
    assert second["body"] == "\x1b]0;t\x07"
    out = silo("tail", "bin", store=store).stdout
    assert out.splitlines()[0].endswith(rb"\xff\x00\x1b[31m")
    assert out.splitlines()[1].endswith(rb"\x1b]0;t\x07")
    raw = silo("tail", "bin", "--body-only", store=store).stdout
    assert raw == b"\xff\x00\x1b[31m\n\x1b]0;t\x07\n"


def test_bodies_on_a_terminal_are_escaped(store: Path) -> None:
    silo("send", "tty", store=store, stdin=b"\x1b[31m\n")
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [*SILO, "tail", "tty", "--body-only", "--store", str(store)], stdout=theirs, check=True
        )
        assert os.read(ours, 1000).strip() == rb"\x1b[31m"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("options", [(), ("--tags", "t", "--property", "a=b")])
def test_many_lines_in_order(store: Path, options: tuple[str, ...]) -> None:
    topic = f"lines{len(options)}"
    lines = [f"{i} {'x' * (i % 300)} ü".encode() for i in range(20_000)]
    lines[77] = b""
    where = ("--shard-key", "k", *options, "--json")
    done = silo("send", topic, *where, store=store, stdin=b"\n".join(lines))
    summary = json.loads(done.stdout)
    assert summary["messages"] == 20_000
    assert summary["bytes"] == sum(map(len, lines))
    assert done.stderr.startswith(b"20,000 messages stored in ")
    out = silo("tail", topic, "--body-only", store=store).stdout
    assert out == b"\n".join(lines) + b"\n"


def test_lines_spread_over_queues(store: Path) -> None:
    lines = [str(i).encode() for i in range(5000)]
    silo("send", "spread", store=store, stdin=b"\n".join(lines) + b"\n")
    found = messages(store, "spread")
    assert sorted(int(message["body"]) for message in found) == list(range(5000))
    assert {message["queue_id"] for message in found} == {0, 1, 2, 3}


def test_a_line_is_sent_before_the_next_one_comes(store: Path) -> None:
    silo("topics", "create", "slow", "--queues", "1", store=store)
    with (
        subprocess.Popen(
            [*SILO, "send", "slow", "--store", str(store)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        Consumer(store, "slow") as consumer,
    ):
        assert process.stdin is not None
        for body in (b"first", b"second"):
            process.stdin.write(body[:3])
            process.stdin.flush()
            process.stdin.write(body[3:] + b"\n")
            process.stdin.flush()
            assert [message.body for message in consumer.poll(2, WAIT_S)] == [body]
        _, talk = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert talk.startswith(b"2 messages stored")


def test_a_line_that_is_too_long_is_named(store: Path) -> None:
    long = b"x" * (4 * 1024 * 1024 + 1)
    done = silo("send", "long", store=store, stdin=b"a\nb\n" + long + b"\nc\n", status=2)
    talk = done.stderr.decode().splitlines()
    assert talk[0].startswith("2 messages stored")
    assert talk[1].startswith("silo: MESSAGE_ILLEGAL: line 3: the body has 4194305 bytes")
    assert len(talk) == 2
    assert {message["body"] for message in messages(store, "long")} == {"a", "b"}


def test_the_longest_message_goes_through(store: Path) -> None:
    body = b"y" * (4 * 1024 * 1024)
    silo("send", "longest", store=store, stdin=body + b"\n" + body)
    assert silo("tail", "longest", "--body-only", store=store).stdout == 2 * (body + b"\n")


def test_what_tail_chooses(store: Path) -> None:
    with Producer(store) as producer:
        for i in range(20):
            producer.send("choose", str(i), queue=i % 4, tags="odd" if i % 2 else "even")
    bodies = [int(message["body"]) for message in messages(store, "choose", "--queue", "1")]
    assert bodies == [1, 5, 9, 13, 17]
    two = messages(store, "choose", "--queue", "1", "--queue", "2", "--from", "4")
    assert sorted(int(message["body"]) for message in two) == [17, 18]
    assert len(messages(store, "choose", "--tag", "even")) == 10
    assert len(messages(store, "choose", "--tag", "odd", "--tag", "even", "--max", "7")) == 7
    assert messages(store, "choose", "--from", "latest") == []
    assert messages(store, "choose", "--from", "99") == []


def start_tail(store: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*SILO, "tail", *arguments, "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_follow_until_ctrl_c(store: Path) -> None:
    with Producer(store) as producer:
        producer.send("follow", "old")
        with start_tail(store, "follow", "-f", "--from", "earliest", "--body-only") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"old\n"
            producer.send("follow", "new")
            assert process.stdout.readline() == b"new\n"
            process.send_signal(signal.SIGINT)
            out, talk = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, talk) == (130, b"", b"")


def test_follow_shows_new_messages_only(store: Path) -> None:
    with Producer(store) as producer:
        producer.send("newest", "old", queue=0)
        with start_tail(store, "newest", "-f", "--max", "1", "--body-only") as process:
            deadline = time.monotonic() + WAIT_S
            while process.poll() is None and time.monotonic() < deadline:
                producer.send("newest", "new", queue=0)
                time.sleep(0.05)
            out, talk = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, talk) == (0, b"new\n", b"")


def test_a_broken_pipe_ends_quietly(store: Path) -> None:
    lines = b"\n".join(b"%090d" % i for i in range(30_000))
    silo("send", "pipe", store=store, stdin=lines)
    with start_tail(store, "pipe") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        talk = process.stderr.read()
        assert (process.wait(WAIT_S), talk) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(store: Path, closed: str) -> None:
    place = ["--store", str(store)]
    for words in (["send", "closed", "x"], ["tail", "closed"], ["topics"], ["status", "--json"]):
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *SILO, *words, *place]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), words
    found = silo("tail", "closed", "--body-only", "--queue", "0", store=store).stdout
    assert set(found.split()) <= {b"x"}


def test_child_programs_have_the_streams_that_were_closed() -> None:
    code = (
        "import subprocess, sys; from silomq.conf.standard_streams import open_missing; "
        "open_missing(); "
        "sys.exit(subprocess.run([sys.executable, '-c', 'import os; os.fstat(1)']).returncode)"
    )
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-P", "-c", code]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_ctrl_c_while_sending_counts_what_was_sent(store: Path) -> None:
    silo("topics", "create", "stop", "--queues", "1", store=store)
    with (
        subprocess.Popen(
            [*SILO, "send", "stop", "--store", str(store)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        Consumer(store, "stop") as consumer,
    ):
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nthr")
        process.stdin.flush()
        assert consumer.poll(2, WAIT_S)
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert talk.startswith(b"2 messages stored")


@pytest.mark.parametrize("topic", BAD_TOPICS, ids=ascii)
def test_bad_topics_are_refused(store: Path, topic: str) -> None:
    where = ["--store", str(store)]
    for command in (["send", *where, "--", topic, "x"], ["topics", "create", *where, "--", topic]):
        done = in_python(command)
        assert done.returncode == 2
        assert "MESSAGE_ILLEGAL" in sentence(done)
    done = in_python(["tail", *where, "--", topic])
    assert done.returncode == 2
    assert "MESSAGE_ILLEGAL" in sentence(done)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["send", "t", "x", "--queue", "9"], "MESSAGE_ILLEGAL: queue 9 of topic t"),
        (["send", "t", "x", "--property", "TAGS=a"], "MESSAGE_ILLEGAL: property TAGS"),
        (["send", "t", "x", "--property", "no"], "write it as NAME=VALUE"),
        (["send", "t", "x", "--property", "a=" + "v" * 33_000], "PROPERTIES_SIZE_EXCEEDED"),
        (["send", "t", "x", "--tags", "a\x01b"], "MESSAGE_ILLEGAL: tags"),
        (["send", "t", "x", "--tags", "a\udcff"], "no UTF-8 form"),
        (["send", "t", "x", "--queue", "1", "--shard-key", "k"], "exclude each other"),
        (["send", "t", "x", "y"], "unexpected extra argument"),
        (["send"], "Missing argument 'TOPIC'"),
        (["tail", "t", "--queue", "4"], "it has queues 0 to 3"),
        (["tail", "t", "--from", "-1"], "earliest"),
        (["tail", "t", "--json", "--body-only"], "exclude each other"),
        (["tail", "nowhere"], "MESSAGE_ILLEGAL: topic nowhere does not exist"),
        (["topics", "create", "t", "--queues", "9"], "MESSAGE_ILLEGAL: topic t exists"),
        (["status", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: (
        " ".join(value)[:40].encode("ascii", "replace").decode() if isinstance(value, list) else ""
    ),
)
def test_wrong_usage_is_said(store: Path, arguments: list[str], said: str) -> None:
    silo("topics", "create", "t", "--queues", "4", store=store)
    where = [] if arguments == ["nonsense"] else ["--store", str(store)]
    done = in_python([*arguments[:1], *where, *arguments[1:]])
    assert done.returncode == 2
    assert said in sentence(done)


def test_topics_are_listed(store: Path) -> None:
    made = silo("topics", "create", "eight", "--queues", "8", "--json", store=store)
    assert json.loads(made.stdout)["write_queues"] == 8
    assert silo("topics", "create", "eight", "--queues", "8", store=store).stdout == b""
    silo("send", "eight", store=store, stdin=b"a\nb\nc\n")
    messages(store, "eight")  # waits for dispatch
    found = {
        topic["topic"]: topic for topic in json.loads(silo("topics", "--json", store=store).stdout)
    }
    assert found["eight"]["messages"] == 3
    assert found["eight"]["read_queues"] == 8
    for command in (("topics",), ("topics", "list")):
        text = silo(*command, store=store).stdout.decode()
        row = next(line for line in text.splitlines() if line.strip().startswith("eight "))
        assert row.split() == ["eight", "8", "read,", "write", "3"]


def test_status_says_how_the_store_is(store: Path) -> None:
    silo("send", "status", "x", store=store)
    found = json.loads(silo("status", "--json", store=store).stdout)
    assert found["state"] == "RUNNING"
    assert found["wrote"] >= found["dispatched"] > 0
    assert found["processes"]["append"]["state"] == "READY"
    assert os.path.realpath(found["store"]) == os.path.realpath(store)
    text = silo("status", store=store).stdout.decode()
    for word in ("RUNNING", "ASYNC_FLUSH", "wrote", "append", "ready", "log end", "Start-up"):
        assert word in text
    assert f"{found['processes']['reput']['pid']}" in text


def test_the_environment_names_the_store(store: Path) -> None:
    done = subprocess.run(
        [*SILO, "send", "env", "x"],
        env={**os.environ, "SILOMQ_STORE_PATH": str(store)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"PUT_OK env[")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    text = silo(command, "--help").stdout.decode()
    assert f"Usage: silo {command} " in text
    assert "Examples:" in text
    assert "--store DIR" in text


def test_help_lists_commands_and_statuses() -> None:
    text = silo("--help").stdout.decode()
    assert silo().stdout.decode() == text
    assert all(f"  {command} " in text for command in COMMANDS)
    assert "Exit status:" in text
    assert silo("--version").stdout.startswith(b"silo, version ")


def test_sending_imports_no_tables() -> None:
    code = (
        "import sys; from silomq.cli import main; "
        "print([name for name in ('rich', 'structlog', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([*PYTHON, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_the_shell_completes_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "silomq.cli.main"],
        env={
            **os.environ,
            "_SILO_COMPLETE": "bash_complete",
            "COMP_WORDS": "silo s",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        check=False,
    )
    found = [f"plain,{name}".encode() for name in ("send", "serve", "spark", "status", "systemd")]
    assert done.stdout.split() == found
