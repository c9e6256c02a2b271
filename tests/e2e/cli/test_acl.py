"""`silo acl`: accounts are shown, changed, checked and tested."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import sentence, silo
from support.signers import ACCOUNTS, ADMIN, READER, SECRET

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "plain_acl.yml"
    found.write_text(ACCOUNTS)
    found.chmod(0o600)
    return found


def acl(
    path: Path, *arguments: str, status: int = 0, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    done = silo("acl", "--file", str(path), *arguments, status=status, stdin=stdin)
    assert SECRET.encode() not in done.stdout + done.stderr
    return done


def listed(path: Path) -> dict[str, Any]:
    found = json.loads(acl(path, "--json").stdout)
    return {one["account"]: one for one in found["accounts"]}


def test_a_list_has_no_secrets(path: Path) -> None:
    text = acl(path).stdout.decode()
    assert "orders=PUB|SUB" in text
    assert "readers=SUB" in text
    assert "not checked: none" in text
    assert listed(path)[ADMIN] == {
        "account": ADMIN,
        "admin": True,
        "white_address": None,
        "default_topic": "DENY",
        "default_group": "DENY",
        "topics": {},
        "groups": {},
    }


def test_an_account_comes_changes_and_goes(path: Path) -> None:
    done = acl(path, "add", "new-service", "--topic", "a=PUB|SUB", "--group", "g=SUB", "--admin")
    first = done.stdout.decode().strip()
    assert len(first) >= 32
    assert first in path.read_text()
    arguments = ("--no-topic", "a", "--topic", "b=SUB", "--no-admin", "--default-topic", "PUB")
    assert acl(path, "change", "new-service", *arguments).stdout == b""
    found = listed(path)["new-service"]
    assert (found["topics"], found["groups"]) == ({"b": "SUB"}, {"g": "SUB"})
    assert (found["admin"], found["default_topic"]) == (False, "PUB")
    done = acl(path, "change", "new-service", "--new-secret", "--json")
    second = json.loads(done.stdout)["secret"]
    assert second != first
    acl(path, "change", "new-service", "--secret-stdin", stdin=b"typed secret\n")
    text = path.read_text()
    assert "typed secret" in text
    assert first not in text
    assert second not in text
    acl(path, "remove", "new-service")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "new-service" not in listed(path)
    acl(path, "white", "10.0.0.*", "10.1.0.0/16")
    assert json.loads(acl(path, "--json").stdout)["white_addresses"] == ["10.0.0.*", "10.1.0.0/16"]


def test_a_first_account_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new.yml"
    acl(path, "add", "first-service", "--admin")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(listed(path)) == ["first-service"]


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["add", READER], 1, "already"),
        (["add", "short"], 1, "accessKey"),
        (["add", "some-service", "--topic", "orders"], 2, "NAME=PERMISSION"),
        (["add", "some-service", "--topic", "orders=ALL"], 2, "'ALL'"),
        (["add", "some-service", "--secret-stdin"], 2, "no secret"),
        (["change", READER], 2, "nothing to change"),
        (["change", "some-service", "--admin"], 1, "no account 'some-service'"),
        (["change", READER, "--white", "10.0"], 1, "whiteRemoteAddress"),
        (["remove", "some-service"], 1, "no account"),
        (["test", READER, "PUB", "orders", "--from", "x"], 2, "--from"),
    ],
)
def test_mistakes(path: Path, arguments: list[str], status: int, why: str) -> None:
    assert why in sentence(acl(path, *arguments, status=status))
    assert path.read_text() == ACCOUNTS


def test_a_check_tells_every_error(path: Path) -> None:
    assert b"3 accounts, no error" in acl(path, "check").stderr
    path.write_text(ACCOUNTS + "    defaultTopicPerm: X\n    whiteRemoteAddress: y\n")
    done = acl(path, "check", status=3)
    first, second = done.stdout.decode().splitlines()
    assert f"({ADMIN!r}): whiteRemoteAddress" in first
    assert f"({ADMIN!r}): defaultTopicPerm" in second
    found = json.loads(acl(path, "check", "--json", status=3).stdout)
    assert (found["accounts"], len(found["problems"])) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "status", "rule"),
    [
        ([READER, "PUB", "orders"], 0, "topicPerms has orders=PUB|SUB"),
        ([READER, "PUB", "read-only"], 1, "topicPerms has read-only=SUB"),
        ([READER, "SUB", "elsewhere"], 1, "defaultTopicPerm is DENY"),
        ([READER, "SUB", "readers", "--group"], 0, "groupPerms has readers=SUB"),
        ([READER, "SUB", "else", "--group"], 1, "defaultGroupPerm is DENY"),
        ([READER, "SUB", "SCHEDULE_TOPIC_XXXX"], 1, "messages of all topics"),
        ([READER, "PUB", "RMQ_SYS_TRACE_TOPIC"], 0, "every account may send traces"),
        ([ADMIN, "SUB", "elsewhere"], 0, "an administrator"),
        (["some-service", "SUB", "orders"], 1, "no such account"),
        (["some-service", "SUB", "orders", "--from", "10.9.0.1"], 0, "globalWhiteRemote"),
        ([READER, "SUB", "elsewhere", "--from", "10.8.0.1"], 0, "whiteRemoteAddress is 10.8"),
        ([READER, "SUB", "elsewhere", "--from", "10.7.0.1"], 1, "defaultTopicPerm is DENY"),
    ],
)
def test_what_an_account_may(path: Path, arguments: list[str], status: int, rule: str) -> None:
    white = "globalWhiteRemoteAddresses: [10.9.0.*]"
    text = ACCOUNTS.replace("globalWhiteRemoteAddresses:", white)
    path.write_text(text.replace("whiteRemoteAddress:\n", "whiteRemoteAddress: 10.8.0.*\n", 1))
    done = acl(path, "test", *arguments, status=status)
    told = done.stdout.decode()
    assert told.startswith("denied: " if status else "allowed: ")
    assert rule in told
