"""RocketMQ's mqadmin 5.3.3 signs, and administrates the accounts of `silo broker` as users and
rules of RocketMQ 5.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from interop.mqadmin import MqAdmin, Server, mqadmin
from interop.rocketmq import require
from interop.servers import BROKER
from support.brokers import BrokerProcess
from support.harness import StoreProcess
from support.signers import ACCOUNTS, ADMIN, SECRET

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_USER = "from-mqadmin"
_NEW_SECRET = "another-secret"


@contextlib.contextmanager
def broker_with_accounts(folder: Path) -> Iterator[BrokerProcess]:
    folder.mkdir()
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    file.chmod(0o600)
    settings = ("aclEnable=true", f"acl_file={file}")
    with (
        StoreProcess(folder / "store", store_port=free_port()) as store,
        BrokerProcess(store.path, *settings) as broker,
    ):
        yield broker


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MqAdmin, str]]:
    """RocketMQ's tool for a broker with accounts, and the broker's address."""
    require(BROKER)
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "conf").mkdir()
    keys = f"accessKey: {ADMIN}\nsecretKey: {SECRET}\n"
    (folder / "conf" / "tools.yml").write_text(keys)
    with (
        broker_with_accounts(folder / "broker") as broker,
        mqadmin(folder, Server(broker.address, broker.address)) as found,
    ):
        yield found, broker.address


@pytest.mark.timeout(120)
def test_users_and_rules(tool: tuple[MqAdmin, str]) -> None:
    admin, broker = tool

    def run(command: str) -> str:
        return admin.run(*command.format(broker=f"-b {broker}", user=_USER).split())

    def rows(command: str) -> list[list[str]]:
        """What a list says behind its head."""
        return [line.split() for line in run(command).splitlines()[1:]]

    assert "success" in run(f"createUser {{broker}} -u {{user}} -p {_NEW_SECRET} -t Normal")
    assert "The user is existed" in run(f"createUser {{broker}} -u {{user}} -p {_NEW_SECRET}")
    told = [_USER, _NEW_SECRET, "Normal", "enable"]
    assert rows("getUser {broker} -u {user}") == [told]
    assert told in rows("listUser {broker}")
    assert rows("listUser {broker} -f from-") == [told]
    command = "{broker} -s User:{user} -r Topic:orders,Group:readers -a Sub -d Allow"
    assert "success" in run(f"createAcl {command}")
    custom = [[f"User:{_USER}", "Custom", one] for one in ("Topic:orders", "Group:readers")]
    found = rows("getAcl {broker} -s User:{user}")
    assert [row[:3] for row in found[:2]] == custom
    assert all("[Sub]" in row and row[-1] == "Allow" for row in found[:2])
    assert [row[2] for row in found[2:]] == ["Topic:*", "Group:*"]
    assert all(row[1] == "Default" and row[-1] == "Deny" for row in found[2:])
    listed = rows("listAcl {broker} -s {user} -r Topic:orders")
    assert [row[:3] for row in listed] == custom[:1]
    more = "{broker} -s User:{user} -r Topic:orders -a Pub,Sub -d Allow"
    assert "success" in run(f"updateAcl {more}")
    assert "[Pub, Sub]" in run("getAcl {broker} -s User:{user}")
    for bad, why in (
        ("updateAcl {broker} -s User:{user} -r Topic:ord* -a Pub -d Allow", "no parts of names"),
        ("updateAcl {broker} -s User:{user} -r Topic:a -a Create -d Allow", "has Pub and Sub"),
        ("updateAcl {broker} -s User:{user} -r Topic:a -a Pub -i 10.0.0.1 -d Allow", "addresses"),
        ("updateUser {broker} -u {user} -s disable", "switched off"),
    ):
        said = run(bad)
        assert "CODE: 29" in said, said
        assert why in said, said
    assert "success" in run("deleteAcl {broker} -s User:{user} -r Topic:orders")
    assert rows("getAcl {broker} -s User:{user}")[0][2] == "Group:readers"
    assert "success" in run(f"updateUser {{broker}} -u {{user}} -p {SECRET.replace(' ', '-')}")
    assert _NEW_SECRET not in run("getUser {broker} -u {user}")
    assert "success" in run("deleteUser {broker} -u {user}")
    assert rows("listUser {broker} -f {user}") == []


@pytest.mark.timeout(120)
def test_users_and_rules_are_copied_to_another_broker(
    tool: tuple[MqAdmin, str], tmp_path: Path
) -> None:
    admin, source = tool
    with broker_with_accounts(tmp_path / "other") as other:

        def run(command: str) -> str:
            return admin.run(*command.split())

        assert "success" in run(f"createUser -b {source} -u from-copy -p {_NEW_SECRET} -t Normal")
        rule = "-s User:from-copy -r Topic:orders -a Sub -d Allow"
        assert "success" in run(f"createAcl -b {source} {rule}")
        both = f"-f {source} -t {other.address}"
        assert "failed" in run(f"copyAcl {both} -s User:from-copy"), "the user comes first"
        assert "success" in run(f"copyUser {both} -u from-copy")
        assert "success" in run(f"copyAcl {both} -s User:from-copy")
        for asked in ("getUser -b {} -u from-copy", "getAcl -b {} -s User:from-copy"):
            assert run(asked.format(other.address)) == run(asked.format(source))
        # All of them, among them those that are there already.
        assert "success" in run(f"copyUser {both}")
        assert "success" in run(f"copyAcl {both}")
        assert run(f"listUser -b {other.address}") == run(f"listUser -b {source}")
        assert run(f"listAcl -b {other.address}") == run(f"listAcl -b {source}")
