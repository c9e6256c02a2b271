"""Making and checking backups."""

from __future__ import annotations

from pathlib import Path

from support.checking.messages import read_topic
from support.commands import silo

from silomq import Producer
from silomq.tools.raw.files import read_settings
from silomq.tools.verify.verify import verify

TOPICS = ("alpha", "beta", "gamma")


def back_up(store: Path, into: Path, *more: str) -> Path:
    """Makes a backup of a store: its path."""
    return Path(silo("backup", str(store), str(into), *more).stdout.decode().strip())


def check_sound(backup: Path) -> int:
    """Asserts that `silo verify` finds nothing: how many records there are."""
    report = verify(backup, read_settings(None, (), backup))
    assert report.findings == []
    return report.counts["records"]


def bodies(store: Path, topic: str) -> list[bytes]:
    """The bodies of all messages of a topic."""
    return [bytes(view.body) for view in read_topic(store, topic)]


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def send(store: Path, first: int, count: int) -> None:
    """Sends messages with these numbers to TOPICS in turn."""
    with Producer(store) as producer:
        for number in range(first, first + count):
            body = b"%d " % number + bytes(700)
            producer.send_async(TOPICS[number % 3], body, tags="t", keys=f"k{number}")
        producer.flush()


def numbers(found: list[bytes]) -> list[int]:
    """The numbers of messages that `send` sent."""
    return [int(body.split()[0]) for body in found]
