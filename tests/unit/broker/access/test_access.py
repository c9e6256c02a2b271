"""Decisions by a file of accounts, and a file that changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from support.signers import ACCOUNTS, ADMIN, GUEST, READER, SECRET, sign

from silomq.broker.access.access import EVERYTHING, Access
from silomq.broker.access.accounts import BadAccounts
from silomq.broker.access.permissions import Denied
from silomq.broker.loop.tasks import Thread, start
from silomq.broker.wire.command import Command
from silomq.store.record.ids import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
HERE = Host.of("127.0.0.1", 1).packed()
THERE = Host.of("10.9.8.7", 1).packed()
PULL = {"topic": "orders", "consumerGroup": "readers"}


class Log:
    """Notes what is logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _note(self, event: str, **more: Any) -> None:
        self.lines.append(f"{event} {more}")

    info = warning = error = _note


class Direct(Thread):
    """Calls at once, where it is told to."""

    def __init__(self) -> None:
        """No thread begins."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)
    return path


def signed(
    code: int, key: str, fields: dict[str, str], body: bytes = b"", secret: str = SECRET
) -> Command:
    fields = {**fields, "AccessKey": key}
    return Command(code, {**fields, "Signature": sign(secret, fields, body)}, body)


def test_what_is_missing_is_said(path: Path) -> None:
    access = Access(path, Log())

    def why(request: Command) -> str:
        with pytest.raises(Denied) as denied:
            access.check(request, HERE)
        assert SECRET not in str(denied.value)
        return str(denied.value)

    assert "no AccessKey" in why(Command(10, {"topic": "orders"}))
    assert "no account 'nobody\\n'" in why(signed(10, "nobody\n", {}))
    assert "signature of account 'reader-key'" in why(signed(10, READER, {}, secret="other"))
    changed = signed(10, READER, {"topic": "sent-only"})
    changed.fields["topic"] = "orders"
    assert "signature" in why(changed)
    assert why(signed(10, READER, {"topic": "else"})) == (
        "account 'reader-key' lacks PUB of topic 'else'"
    )
    assert "SUB of topic 'orders'" in why(signed(11, GUEST, PULL))
    assert "SUB of group 'else'" in why(signed(11, READER, {**PULL, "consumerGroup": "else"}))
    assert "no administrator, as request 17 needs" in why(signed(17, READER, {"topic": "orders"}))
    assert "no administrator" in why(signed(9999, READER, {}))


def test_who_may(path: Path) -> None:
    access = Access(path, Log())
    grant = access.check(signed(11, READER, PULL), HERE)
    grant.demand_reading("read-only")
    with pytest.raises(Denied, match="SUB of topic 'sent-only'"):
        grant.demand_reading("sent-only")
    access.check(signed(10, READER, {"topic": "sent-only"}, b"body"), HERE)
    access.check(signed(105, GUEST, {"topic": "unknown"}), HERE)
    admin = access.check(signed(17, ADMIN, {"topic": "any"}), HERE)
    admin.demand_reading("SCHEDULE_TOPIC_XXXX")


def test_without_authorization_an_account_may_do_everything(path: Path) -> None:
    access = Access(path, Log(), authorizes=False)
    assert access.check(signed(17, GUEST, {"topic": "any"}), HERE) is EVERYTHING
    with pytest.raises(Denied, match="signature"):
        access.check(signed(17, GUEST, {}, secret="other"), HERE)


def test_white_addresses_are_not_checked(path: Path) -> None:
    path.write_text(ACCOUNTS.replace("Addresses:", "Addresses: [10.9.*.*]"))
    access = Access(path, Log())
    for _ in range(2):
        assert access.check(Command(17), THERE) is EVERYTHING
        with pytest.raises(Denied):
            access.check(Command(17), HERE)
    path.write_text(ACCOUNTS + "    whiteRemoteAddress: 10.9.8.7\n")
    access = Access(path, Log())
    assert access.check(Command(17, {"AccessKey": ADMIN}), THERE) is EVERYTHING
    for request, host in ((Command(17), THERE), (Command(17, {"AccessKey": ADMIN}), HERE)):
        with pytest.raises(Denied):
            access.check(request, host)


def test_a_file_that_changes(path: Path) -> None:
    log = Log()
    access = Access(path, log)
    request = signed(10, READER, {"topic": "orders"})
    fast = (READER.encode(), 10, b"orders", b"")
    content = (READER + "orders").encode()
    signature = request.fields["Signature"].encode()

    def is_allowed() -> bool:
        start(access.reread(Direct()))
        found = access.allows(HERE, fast, signature, content, b"")
        try:
            access.check(request, HERE)
        except Denied:
            assert not found
            return False
        assert found
        return True

    assert is_allowed()
    path.write_text("accounts: [")
    assert is_allowed()
    assert "the new accounts are not used" in log.lines[-1]
    assert "line 1" in log.lines[-1]
    count = len(log.lines)
    assert is_allowed()
    assert len(log.lines) == count, "the error is told once"
    path.write_text(ACCOUNTS.replace("orders=PUB|SUB", "orders=SUB"))
    assert not is_allowed()
    assert "'accounts': 3" in log.lines[-1]
    path.unlink()
    count = len(log.lines)
    for _ in range(3):
        assert not is_allowed()
    assert "No such file" in log.lines[-1]
    assert len(log.lines) == count + 1, "it is tried again, and told once"
    new = path.with_name("new")
    new.write_text(ACCOUNTS)
    new.rename(path)
    assert is_allowed()
    told: list[int] = []
    access.changed.append(lambda: told.append(1))
    path.write_text(ACCOUNTS.replace(SECRET, "another secret"))
    assert not is_allowed()
    assert told == [1], "what waits must be asked again"
    for bad in ('accounts: "\\UFFFFFFFF"', 'accounts: [{accessKey: "\\uD800abcdef"}]'):
        path.write_text(bad)
        assert not is_allowed()
        assert "the new accounts are not used" in log.lines[-1]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yml")
    with pytest.raises(BadAccounts, match="it is no file"):
        Access(tmp_path / "pipe.yml", Log())


def test_secrets_that_everybody_can_read_are_told_of(path: Path) -> None:
    log = Log()
    Access(path, log)
    assert log.lines == []
    path.chmod(0o604)
    Access(path, log)
    assert "every user can read" in log.lines[0]
    assert os.fspath(path) in log.lines[0]
