"""The file of accounts: RocketMQ's own form, and every slip of the pen in it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from silomq.broker.access.accounts import BadAccounts, parse_accounts, read_accounts
from silomq.broker.access.permissions import Perm
from silomq.broker.access.signatures import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

#: As operators of RocketMQ write it: a secret of digits, a name without a value, `dataVersion`.
USUAL = b"""\
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: orders-service
    secretKey: 01234567
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      # groups
      - groupA = SUB
  - {accessKey: operators, secretKey: "12345678", whiteRemoteAddress: 192.168.1.*, admin: true}
dataVersion:
  - {counter: 1, timestamp: 1}
"""
ONE = "accounts:\n- accessKey: service\n  secretKey: 1234567\n"


def test_the_usual_file(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(USUAL)
    found = read_accounts(path)
    (white,) = found.white
    assert white.matches(ip_address("10.10.103.7"))
    assert not white.matches(ip_address("10.10.104.7"))
    service, operators = found.by_key["orders-service"], found.by_key["operators"]
    assert service.perms == {
        "topicA": Perm.DENY,
        "topicB": Perm.PUB | Perm.SUB,
        "%RETRY%groupA": Perm.SUB,
    }
    assert (service.default_topic, service.default_group) == (Perm.DENY, Perm.SUB)
    assert not service.admin
    assert service.white is None
    assert service.key.has_signed(b"x", b"", SigningKey(b"01234567").signature(b"x", b""))
    assert operators.admin
    assert operators.white is not None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["nobody could connect"]),
        ("accounts:\n", ["nobody could connect"]),
        ("accounts: [", ["line 1", "YAML"]),
        ("\tx: 1", ["YAML"]),
        ("a: 1\n---\nb: 2", ["YAML"]),
        ("- accounts", ["array"]),
        ("? [a]\n: 1", ["a name is no text"]),
        ("acounts: []", ["acounts"]),
        ("accounts: 3", ["accounts"]),
        ("accounts:\n- service", ["accounts[0]"]),
        ("[" * 600 + "]" * 600, ["YAML"]),
        ("&a [*a]", ["YAML"]),
        ("accounts:\n- secretKey: 1234567", ["account 1", "accessKey"]),
        ("accounts:\n- accessKey: service", ["account 1", "'service'", "secretKey"]),
        ("accounts:\n- accessKey: short\n  secretKey: 1234567", ["account 1", "accessKey", "7"]),
        ("accounts:\n- accessKey: service\n  secretKey: 123456", ["'service'", "secretKey", "7"]),
        ("accounts:\n- accessKey: service\n  secretKey: [1]", ["'service'", "secretKey"]),
        (f"{ONE}  admin: perhaps", ["'service'", "admin"]),
        (f"{ONE}  administrator: true", ["'service'", "administrator"]),
        (f"{ONE}  secretKey: 7654321", ["line 4", "secretKey", "twice"]),
        (f"{ONE}  defaultTopicPerm: ALL", ["'service'", "defaultTopicPerm", "'ALL'"]),
        (f"{ONE}  defaultGroupPerm: sub", ["'service'", "defaultGroupPerm", "'sub'"]),
        (f"{ONE}  topicPerms: orders=PUB", ["'service'", "topicPerms"]),
        (f"{ONE}  topicPerms: [orders]", ["'service'", "topicPerms", "'orders'"]),
        (f"{ONE}  topicPerms: [=PUB]", ["'service'", "topicPerms", "'=PUB'"]),
        (f"{ONE}  topicPerms: [a=PUB=SUB]", ["'service'", "topicPerms", "'PUB=SUB'"]),
        (f"{ONE}  topicPerms: [a=PUB, a=SUB]", ["'service'", "topicPerms", "'a'", "already"]),
        (f"{ONE}  groupPerms: [g=READ]", ["'service'", "groupPerms", "'g'", "'READ'"]),
        (f"{ONE}  topicPerms: [{{a: PUB}}]", ["'service'", "topicPerms"]),
        (f"{ONE}  whiteRemoteAddress: 10.0.0", ["'service'", "whiteRemoteAddress", "'10.0.0'"]),
        (f"{ONE}- accessKey: service\n  secretKey: 1234567", ["account 2", "same accessKey"]),
        (f"globalWhiteRemoteAddresses: [x]\n{ONE}", ["globalWhiteRemoteAddresses", "'x'"]),
        (f"globalWhiteRemoteAddresses: 10.0.0.1\n{ONE}", ["globalWhiteRemoteAddresses"]),
    ],
)
def test_a_slip_of_the_pen(text: str, names: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_accounts(text.encode())
    for name in names:
        assert name in str(error.value)
    assert "123456" not in str(error.value), "no secret is told"
    assert "\n" not in str(error.value)
    path = tmp_path / "accounts.yml"
    path.write_text(text)
    with pytest.raises(BadAccounts, match=r"accounts\.yml: ."):
        read_accounts(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadAccounts, match=r"No such file.*missing\.yml"):
        read_accounts(tmp_path / "missing.yml")
    with pytest.raises(BadAccounts, match="directory"):
        read_accounts(tmp_path)
    path = tmp_path / "binary.yml"
    path.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(BadAccounts, match=r"binary\.yml: it is no YAML"):
        read_accounts(path)
    path.write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(BadAccounts, match="4 MiB"):
        read_accounts(path)
