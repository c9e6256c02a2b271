"""Changes of a file of accounts: what stays, and what is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from silomq.broker.access.accounts import BadAccounts, check_accounts, read_accounts
from silomq.broker.access.editing import (
    Change,
    add_account,
    change_account,
    new_secret,
    put_account,
    remove_account,
    set_white,
)
from silomq.broker.access.permissions import Need, Perm
from silomq.broker.access.signatures import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.broker.access.permissions import Account

#: Comments in all places, a secret of digits, a number in quotes, an empty name, an inline account.
USUAL = """\
# who may do what
globalWhiteRemoteAddresses:
  - 10.10.103.*   # the operators' room
accounts:
  # the shop
  - accessKey: orders-service
    secretKey: 00123456   # changed in May
    whiteRemoteAddress:
    admin: false
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY   # never
      - topicB=PUB|SUB
    groupPerms:
      # groups
      - groupA = SUB
  - {accessKey: operators, secretKey: "12345678", admin: true}
# the end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "plain_acl.yml"
    found.write_text(USUAL)
    found.chmod(0o600)
    return found


def account(path: Path, key: str = "orders-service") -> Account:
    return read_accounts(path).by_key[key]


def signs(path: Path, secret: str, key: str = "orders-service") -> bool:
    return account(path, key).key.has_signed(
        b"x", b"", SigningKey(secret.encode()).signature(b"x", b"")
    )


def comments(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


def test_a_change_leaves_the_rest(path: Path) -> None:
    before = account(path, "operators")
    change_account(
        path,
        "orders-service",
        Change(
            admin=True,
            default_topic=Perm.SUB,
            topics={"topicB": Perm.SUB, "topicC": Perm.PUB | Perm.SUB, "nothing": None},
            groups={"groupA": None, "groupB": Perm.SUB},
        ),
    )
    found = account(path)
    assert (found.admin, found.default_topic, found.default_group) == (True, Perm.SUB, Perm.SUB)
    assert found.perms == {
        "topicA": Perm.DENY,
        "topicB": Perm.SUB,
        "topicC": Perm.PUB | Perm.SUB,
        "%RETRY%groupB": Perm.SUB,
    }
    assert signs(path, "00123456"), "a secret of digits stays as it is written"
    assert account(path, "operators").perms == before.perms
    assert signs(path, "12345678", "operators")
    kept = set(comments(path.read_text()))
    assert {" who may do what", " the shop", " changed in May", " never", " the end"} <= kept
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [path.name], "nothing is left beside it"


@pytest.mark.parametrize("secret", ["01234567", "true-or-not", "1e100000", "'\"#: -{", "~~~~~~~"])
def test_any_secret_reads_back(path: Path, secret: str) -> None:
    change_account(path, "orders-service", Change(secret=secret))
    assert signs(path, secret)
    add_account(path, "0777777", Change(secret=secret, white="10.0.0.*"))
    assert signs(path, secret, "0777777")
    assert str(account(path, "0777777").white) == "10.0.0.*"


def test_accounts_come_and_go(path: Path) -> None:
    secret = new_secret()
    add_account(path, "new-service", Change(secret=secret, topics={"orders": Perm.PUB}))
    assert account(path, "new-service").has(Need("orders", Perm.PUB))
    put_account(path, "new-service", Change(only_topics={}, default_topic=Perm.SUB))
    assert account(path, "new-service").perms == {}
    assert signs(path, secret, "new-service")
    put_account(path, "next-service", Change(secret=secret))
    remove_account(path, "new-service")
    assert set(read_accounts(path).by_key) == {"orders-service", "operators", "next-service"}
    set_white(path, ["10.0.0.0/8"])
    assert [str(one) for one in read_accounts(path).white] == ["10.0.0.0/8"]
    set_white(path, [])
    for key in ("orders-service", "operators"):
        remove_account(path, key)
    with pytest.raises(BadAccounts, match="nobody could connect"):
        remove_account(path, "next-service")
    assert list(read_accounts(path).by_key) == ["next-service"]


@pytest.mark.parametrize(
    ("key", "change", "why"),
    [
        ("orders-service", Change(secret="short"), "secretKey"),
        ("orders-service", Change(secret="x" * 256), "secretKey"),
        ("orders-service", Change(secret="a\nb secret"), "secretKey"),
        ("orders-service", Change(white="10.0"), "whiteRemoteAddress"),
        ("orders-service", Change(topics={"a\nb=": Perm.PUB}), "topicPerms"),
        ("nobody-here", Change(admin=True), "no account 'nobody-here'"),
    ],
)
def test_a_bad_change_changes_nothing(path: Path, key: str, change: Change, why: str) -> None:
    with pytest.raises(BadAccounts, match=why) as error:
        change_account(path, key, change)
    assert "123456" not in str(error.value)
    assert path.read_text() == USUAL


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new.yml"
    with pytest.raises(BadAccounts, match="No such file"):
        change_account(path, "first-service", Change(admin=True))
    with pytest.raises(BadAccounts, match="secretKey"):
        add_account(path, "first-service", Change())
    assert not path.exists()
    add_account(path, "first-service", Change(secret="1234567"))
    assert signs(path, "1234567", "first-service")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadAccounts, match="already"):
        add_account(path, "first-service", Change(secret="1234567"))


def test_a_file_with_an_error_is_not_changed(path: Path) -> None:
    path.write_text(USUAL + "oops: 1\n")
    with pytest.raises(BadAccounts, match="oops"):
        remove_account(path, "operators")


def test_changes_are_counted_where_rocketmq_counts(path: Path) -> None:
    path.write_text(USUAL + "dataVersion:\n- counter: 7\n  timestamp: 1\n")
    remove_account(path, "operators")
    assert read_accounts(path).changes == 8
    assert "timestamp: 1\n" not in path.read_text()


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.parent / "link.yml"
    link.symlink_to(path)
    remove_account(link, "operators")
    assert link.is_symlink()
    assert list(read_accounts(path).by_key) == ["orders-service"]


def test_every_error_is_told() -> None:
    text = """\
globalWhiteRemoteAddresses: [x]
accounts:
- {accessKey: short, secretKey: "1", topicPerms: [a, b=X], defaultTopicPerm: Y}
- {accessKey: service, secretKey: "1234567"}
- {accessKey: service, secretKey: "1234567", whiteRemoteAddress: z}
- {secretKey: "1234567"}
"""
    accounts, problems = check_accounts(text.encode())
    assert list(accounts.by_key) == ["service"]
    expected = [
        ("globalWhiteRemoteAddresses",),
        ("account 1 ('short')", "accessKey"),
        ("account 1 ('short')", "secretKey"),
        ("account 1 ('short')", "topicPerms", "'a'"),
        ("account 1 ('short')", "topicPerms", "'b'", "'X'"),
        ("account 1 ('short')", "defaultTopicPerm", "'Y'"),
        ("account 3 ('service')", "whiteRemoteAddress"),
        ("account 3 ('service')", "same accessKey"),
        ("account 4", "accessKey"),
    ]
    assert len(problems) == len(expected)
    for problem, words in zip(problems, expected, strict=True):
        assert all(word in problem for word in words), problem
