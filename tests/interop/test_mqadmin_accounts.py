"""RocketMQ's mqadmin 5.3.3 signs, and administrates the accounts of `silo broker` as users and
rules of RocketMQ 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.mqadmin import MqAdmin, Server, mqadmin
from interop.rocketmq import require
from interop.servers import BROKER
from support.broker_load import free_port
from support.brokers import BrokerProcess
from support.harness import StoreProcess
from support.signers import ACCOUNTS, ADMIN, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

_USER = "from-mqadmin"
_NEW_SECRET = "another-secret"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MqAdmin, str]]:
    """RocketMQ's tool for a broker with accounts, and the broker's address."""
    require(BROKER)
    folder = tmp_path_factory.mktemp("accounts")
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    file.chmod(0o600)
    (folder / "conf").mkdir()
    keys = f"accessKey: {ADMIN}\nsecretKey: {SECRET}\n"
    (folder / "conf" / "tools.yml").write_text(keys)
    settings = ("aclEnable=true", f"acl_file={file}")
    with (
        StoreProcess(folder / "store", store_port=free_port()) as store,
        BrokerProcess(store.path, *settings) as broker,
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
