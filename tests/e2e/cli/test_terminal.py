"""Nothing that came from outside drives a terminal: messages, names, arguments, in any command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click
import pytest
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS, options

from silomq import GroupConsumer, Producer
from silomq.cli.commands import silo
from silomq.cli.main import main
from silomq.conf.printable import escape_json, printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What terminals obey: ESC, CSI in one character, bidirectional controls, line separators, bell.
HOSTILE: Final = "a\x1b[2J\x9b31m\u202eb\u2066\x7f\x07\u2028\u200fc\U000e0041"
#: As HOSTILE, but as the bytes of an argument, some of which are no UTF-8.
ARGUMENT: Final = HOSTILE.encode() + b"\xff\x9b"
#: A key has no white space.
KEY: Final = HOSTILE.replace("\u2028", "")
TOPIC: Final = "terminal"
GROUP: Final = "terminal-readers"


def check_output(text: bytes) -> None:
    """Only printable characters and line ends."""
    shown = text.decode()
    bad = sorted({c for c in shown if not c.isprintable() and c != "\n"})
    assert not bad, (bad, shown)


def send_hostile(store: Path) -> str:
    """Sends a message whose every field is hostile, and returns its id."""
    with Producer(store) as producer:
        sent = producer.send(
            TOPIC,
            HOSTILE.encode() + b"\x1b\xff",
            queue=0,
            tags=HOSTILE,
            keys=[KEY],
            properties={f"name {HOSTILE}": f"value {HOSTILE}"},
        )
    return str(sent.message_id)


@pytest.fixture(scope="module")
def message(store: Path) -> str:
    return send_hostile(store)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped store with such a message, in a folder of a hostile name."""
    path = tmp_path_factory.mktemp("files") / HOSTILE
    with StoreProcess(path, base=SHIPPED_LIMITS) as store:
        send_hostile(path)
        store.await_dispatch()
        store.stop()
    return path


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all commands, with those of their groups."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = silo
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


def hostile_calls(path: tuple[str, ...]) -> Iterator[list[str]]:
    """Calls of a command with one hostile value each, and harmless ones for the rest."""
    parameters = command_at(path).params
    hostile = ARGUMENT.decode("utf-8", "surrogateescape")
    needed = [p.name for p in parameters if isinstance(p, click.Argument) and p.required]
    plain = dict.fromkeys(needed, "1")
    for number in range(len(needed)):
        yield [*path, *("1" if i != number else hostile for i in range(len(needed)))]
    for parameter in parameters:
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            yield [*path, *plain.values(), parameter.opts[0], hostile]
    yield [*path, *plain.values(), f"--{hostile}"]
    yield [*path, *plain.values(), hostile, hostile, hostile]


#: With most arguments these run until a signal.
SERVERS = ("serve", "dev", "names")


@pytest.mark.parametrize("path", [p for p in commands(silo) if p[0] not in SERVERS], ids=" ".join)
def test_errors_that_quote_arguments_are_escaped(
    path: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """No store is there, so each call fails: with an error about the argument, or without."""
    monkeypatch.chdir(tmp_path)
    calls = 0
    for arguments in hostile_calls(path):
        if path[0] == "spark" and not arguments[-1].startswith("--"):
            continue  # others would start a JVM, and fail on the store afterwards
        main(arguments)
        out, err = capfdbinary.readouterr()
        check_output(out + err)
        calls += 1
    assert calls


def test_names_escapes_the_arguments_that_it_quotes(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hostile = ARGUMENT.decode("utf-8", "surrogateescape")
    (tmp_path / "file").touch()
    for arguments, status in (
        (["--listen", hostile], 2),
        (["--listen", f"{hostile}:1"], 3),
        (["--listen", f"{hostile}:1", "--open"], 1),
        (["--data", f"{tmp_path}/file/{hostile}"], 1),
        ([f"--{hostile}"], 2),
        ([hostile], 2),
    ):
        assert main(["names", *arguments]) == status
        out, err = capfdbinary.readouterr()
        check_output(out + err)


def test_serve_escapes_the_settings_that_it_quotes(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hostile = ARGUMENT.decode("utf-8", "surrogateescape")
    for option in ("--set", "--config"):
        for value in (hostile, f"log_level={hostile}", f"{hostile}=1"):
            store = str(tmp_path / "store")
            assert main(["serve", "--store", store, option, value]) == 3
            out, err = capfdbinary.readouterr()
            check_output(out + err)
            assert err


@pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
def test_messages_are_escaped(
    store: Path, message: str, as_json: bool, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for arguments in (
        ("tail", TOPIC, "--from", "earliest"),
        ("tail", TOPIC, "--group", GROUP, "--from", "earliest"),
        ("query", "unique", TOPIC, message, "--body"),
        ("query", "key", TOPIC, KEY, "--body"),
        ("query", "key", TOPIC, KEY),
        ("topics",),
        ("topics", "show", TOPIC),
        ("groups",),
        ("groups", GROUP),
        ("status",),
    ):
        with GroupConsumer(store, GROUP, TOPIC, instance=HOSTILE):
            more = ("--json",) if as_json else ()
            status = main([*arguments, "--store", str(store), *more])
        out, err = capfdbinary.readouterr()
        check_output(out + err)
        assert status == 0, (arguments, err)
        assert out or "--group" in arguments
        if as_json and arguments[0] == "tail" and out:
            found = json.loads(out)
            assert found["tags"] == HOSTILE


@pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
def test_files_are_escaped(
    files: Path, as_json: bool, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    sizes = options(SHIPPED_LIMITS)
    record = ("dump", "record", str(files), "0")
    for arguments in (
        ("dump", "commitlog", str(files)),
        ("dump", "consumequeue", str(files)),
        ("dump", "index", str(files), "--count", "3"),
        record,
        ("verify", str(files)),
    ):
        main([*arguments, *sizes, *(("--json",) if as_json else ())])
        out, err = capfdbinary.readouterr()
        check_output(out + err)
        if as_json and arguments is record:
            assert json.loads(out)["properties"][f"name {HOSTILE}"] == f"value {HOSTILE}"
    main(["dump", "manifest", str(files), *sizes])
    out, err = capfdbinary.readouterr()
    check_output(out + err)
    assert all(json.loads(line) for line in out.splitlines())


def test_findings_are_escaped(files: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`verify` names topics and folders; a damaged one may have any name."""
    topic = files / "consumequeue" / f"bad{HOSTILE}" / "0"
    topic.mkdir(parents=True)
    file = next((files / "consumequeue" / TOPIC / "0").iterdir())
    (topic / file.name).write_bytes(b"\1" * file.stat().st_size)
    for more in ((), ("--json",)):
        assert main(["verify", str(files), *options(SHIPPED_LIMITS), *more]) == 1
        out, err = capfdbinary.readouterr()
        check_output(out + err)
        assert b"bad" in out


def test_every_other_character_is_escaped_once() -> None:
    # A high surrogate right before a low one is one character in JSON.
    lone = " ".join(map(chr, range(0xD800, 0xE000, 97)))
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x11000), 0xE0041))) + lone
    for text in (every, HOSTILE, "plain", ""):
        shown = printable(text)
        assert shown.isprintable()
        assert printable(shown) == shown
        as_json = printable_json({text: [text]})
        assert as_json.isprintable()
        assert escape_json(as_json) == as_json
        assert json.loads(as_json) == {text: [text]}
    assert printable("grün 漢字 😀") == "grün 漢字 😀"
