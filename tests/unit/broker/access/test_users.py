"""Accounts as users and rules of RocketMQ 5: what is told of them, and what may be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from silomq.broker.access.accounts import Form, read_accounts, read_forms
from silomq.broker.access.editing import add_account, change_account
from silomq.broker.access.permissions import Need, Perm
from silomq.broker.access.users import (
    AclInfo,
    CannotSay,
    Policy,
    Rule,
    UserInfo,
    acl_of,
    change_of_acl,
    change_of_user,
    change_without,
    name_of,
    user_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.broker.access.permissions import Account

NAME, SECRET = "shop-key", "a secret of 1234"
EMPTY = Form(access_key=NAME, secret_key=SECRET)


def acl(*rules: Rule) -> AclInfo:
    return AclInfo(subject=f"User:{NAME}", policies=[Policy(list(rules))])


def allowed(resource: str, *actions: str, **more: Any) -> Rule:
    return Rule(resource, list(actions), **{"decision": "Allow", **more})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    add_account(path, NAME, change_of_user(UserInfo(NAME, SECRET, "Normal", "enable")))
    return path


def account(file: Path) -> Account:
    return read_accounts(file).by_key[NAME]


def test_rules_become_lists_and_are_told_again(file: Path) -> None:
    rules = [
        allowed("Topic:orders", "Pub", "Sub"),
        allowed("Topic:sent", "Pub"),
        Rule("Topic:closed", ["All"], None, "Deny"),
        allowed("Group:readers", "Sub"),
        allowed("Topic:*", "Sub"),
    ]
    (form,) = read_forms(file)
    change_account(file, NAME, change_of_acl(acl(*rules), form))
    found = account(file)
    for topic, perm in (
        ("orders", Perm.PUB | Perm.SUB), ("sent", Perm.PUB), ("other", Perm.SUB),
        ("%RETRY%readers", Perm.SUB),
    ):  # fmt: skip
        assert found.has(Need(topic, perm))
    for topic, perm in (("sent", Perm.SUB), ("closed", Perm.SUB), ("other", Perm.PUB)):
        assert not found.has(Need(topic, perm))
    (form,) = read_forms(file)
    told = acl_of(form)
    assert told["subject"] == f"User:{NAME}"
    custom, default = told["policies"]
    assert custom["entries"] == [
        {"actions": ["Pub", "Sub"], "decision": "Allow", "resource": "Topic:orders"},
        {"actions": ["Pub"], "decision": "Allow", "resource": "Topic:sent"},
        {"actions": ["All"], "decision": "Deny", "resource": "Topic:closed"},
        {"actions": ["Sub"], "decision": "Allow", "resource": "Group:readers"},
    ]
    assert default["entries"] == [
        {"actions": ["Sub"], "decision": "Allow", "resource": "Topic:*"},
        {"actions": ["All"], "decision": "Deny", "resource": "Group:*"},
    ]
    only = acl_of(form, "Group:")["policies"]
    assert [rule["resource"] for one in only for rule in one["entries"]] == [
        "Group:readers", "Group:*",
    ]  # fmt: skip


def test_a_rule_goes_and_all_rules_go(file: Path) -> None:
    (form,) = read_forms(file)
    rules = acl(allowed("Topic:a", "Pub"), allowed("Topic:b", "Pub"), allowed("*", "All"))
    change_account(file, NAME, change_of_acl(rules, form))
    assert account(file).has(Need("other", Perm.PUB | Perm.SUB))
    assert not account(file).has(Need("a", Perm.SUB))
    change_account(file, NAME, change_without("Topic:a"))
    assert account(file).has(Need("a", Perm.SUB)), "the default counts"
    change_account(file, NAME, change_without("Topic:*"))
    assert not account(file).has(Need("a", Perm.SUB))
    assert account(file).has(Need("b", Perm.PUB))
    change_account(file, NAME, change_without(None))
    assert not account(file).has(Need("b", Perm.PUB))
    assert not account(file).has(Need("%RETRY%g", Perm.SUB))


def test_who_may_do_everything_is_a_super_user() -> None:
    admin = Form(access_key=NAME, secret_key=SECRET, admin=True)
    limited = Form(access_key=NAME, secret_key=SECRET, admin=True, topic_perms=["a=PUB"])
    kinds = [user_of(one)["userType"] for one in (EMPTY, admin, limited)]
    assert kinds == ["Normal", "Super", "Normal"]
    with pytest.raises(CannotSay, match="administrator"):
        change_of_acl(acl(allowed("Topic:a", "Pub")), admin)


@pytest.mark.parametrize(
    "rule",
    [
        allowed("Topic:ord*", "Pub"),
        allowed("Topic:", "Pub"),
        allowed("Cluster:c", "Pub"),
        allowed("orders", "Pub"),
        allowed("Topic:orders", "Pub", source_ips=["10.0.0.1"]),
        allowed("Topic:orders", "Create"),
        allowed("Topic:orders"),
        allowed("Group:readers", "Pub"),
        Rule("Topic:orders", ["Pub"], None, "Deny"),
        Rule("Topic:orders", ["Pub"], None, "Perhaps"),
    ],
    ids=lambda rule: f"{rule.resource}-{rule.decision}",
)
def test_what_the_file_cannot_say_is_refused(rule: Rule) -> None:
    with pytest.raises(CannotSay):
        change_of_acl(acl(rule), EMPTY)


@pytest.mark.parametrize(
    "user", [UserInfo(NAME, user_status="disable"), UserInfo(NAME, user_type="King")]
)
def test_users_that_the_file_cannot_have(user: UserInfo) -> None:
    with pytest.raises(CannotSay):
        change_of_user(user)


@pytest.mark.parametrize("subject", ["", "User:", "Role:x", NAME])
def test_subjects_that_are_no_users(subject: str) -> None:
    with pytest.raises(CannotSay):
        name_of(subject)
