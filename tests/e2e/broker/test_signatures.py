"""Every request that a broker serves must be signed, by whoever is named, as it is."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import GOOD, heart_beat, pull_fields
from support.brokers import BrokerProcess
from support.harness import WAIT_S, eventually
from support.remoting_client import RemotingClient
from support.signers import ACCOUNTS, ADMIN, READER, SECRET, SigningClient, sign

from silomq.broker.server import Broker
from silomq.broker.wire.address import Address
from silomq.broker.wire.command import Serialization
from silomq.conf.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.harness import StoreProcess

DENIED = 16
SPOILS = ("nothing", "signature", "body", "field", "account", "key", "empty")


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accounts") / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def broker_settings(accounts: Path) -> tuple[str, ...]:
    return ("aclEnable=true", f"acl_file={accounts}")


@pytest.fixture(scope="module")
def codes(store: StoreProcess, accounts: Path) -> list[int]:
    """All codes that a broker serves."""
    broker = Broker(str(store.path), BrokerSettings(acl_enable=True, acl_file=str(accounts)))
    try:
        broker.listen(Address("127.0.0.1", 0), WAIT_S, lambda _: None)
        return sorted(broker._handlers)
    finally:
        broker.close()


@pytest.fixture(params=list(Serialization))
def client(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[RemotingClient]:
    with RemotingClient(broker.address) as connected:
        connected.form = request.param
        yield connected


def test_every_code_is_refused_without_a_good_signature(
    client: RemotingClient, codes: list[int]
) -> None:
    """By an administrator, who might do all of it."""
    asked = {}
    for code, spoil in itertools.product(codes, SPOILS):
        good = GOOD.get(code, GOOD[106])
        request = client.command(code, {**good.fields, "AccessKey": ADMIN}, good.body)
        request.fields["Signature"] = sign(SECRET, request.fields, request.body)
        match spoil:
            case "nothing":
                del request.fields["AccessKey"], request.fields["Signature"]
            case "signature":
                request.fields["Signature"] = sign("another secret", request.fields, request.body)
            case "body":
                request.body += b"x"
            case "field":
                request.fields["more"] = "x"
            case "account":
                request.fields["AccessKey"] = READER
            case "key":
                request.fields["AccessKey"] = "k" * 70_000
            case "empty":
                request.fields["Signature"] = ""
        client.send_bytes(request.encode())
        asked[request.opaque] = code, spoil
    for opaque, what in asked.items():
        answer = client.answer(opaque)
        assert answer.code == DENIED, (what, answer)
        assert answer.body == b""
        assert len(answer.remark or "") < 300
        assert SECRET not in (answer.remark or "")


def test_a_signature_does_not_serve_another_body(
    client: RemotingClient, broker: BrokerProcess
) -> None:
    with SigningClient(broker.address, READER, form=client.form) as reader:
        overheard = reader.command(34, {}, heart_beat())
        reader.send_bytes(overheard.encode())
        assert reader.answer(overheard.opaque).code == 0
    for body, code in ((heart_beat(), 0), (heart_beat("another"), DENIED), (b"", DENIED)):
        again = client.command(34, overheard.fields, body)
        client.send_bytes(again.encode())
        assert client.answer(again.opaque).code == code


def test_administrators_change_accounts(
    client: RemotingClient, broker: BrokerProcess, accounts: Path
) -> None:
    comment = f"# kept {client.form.name}\n"
    accounts.write_text(comment + ACCOUNTS)
    with SigningClient(broker.address, ADMIN, form=client.form) as admin:
        before = admin.ask(52)
        assert before.fields["brokerName"] == "broker-a"
        assert '"counter": 0' in before.fields["version"]
        assert admin.ask(50, GOOD[50].fields).code == 0
        with SigningClient(broker.address, "some-service", "a secret of 1") as new:
            assert new.ask(11, pull_fields("orders")).code != DENIED
            assert new.ask(11, pull_fields("other")).code == DENIED
            changed = {"accessKey": "some-service", "topicPerms": "other=SUB"}
            assert admin.ask(50, changed).code == 0, "what is not named stays"
            assert new.ask(11, pull_fields("other")).code != DENIED
            assert new.ask(11, pull_fields("orders")).code == DENIED
            assert admin.ask(51, {"accessKey": "some-service"}).code == 0
            assert new.ask(105, {"topic": "orders"}).code == DENIED
        refused = admin.ask(51, {"accessKey": "some-service"})
        assert (refused.code, "no account 'some-service'" in str(refused.remark)) == (210, True)
        refused = admin.ask(50, {"accessKey": "some-service", "secretKey": "short"})
        assert (refused.code, "secretKey" in str(refused.remark)) == (209, True)
        assert admin.ask(50, {"accessKey": "some-service", "topicPerms": "a=ALL"}).code == 1
        refused = admin.ask(53, {"globalWhiteAddrs": "10.0"})
        assert (refused.code, "globalWhite" in str(refused.remark)) == (211, True)
        assert admin.ask(53, {"globalWhiteAddrs": "127.0.0.1"}).code == 0
        assert client.ask(105, {"topic": "orders"}).code != DENIED, "nothing is checked"
        assert admin.ask(53, {"globalWhiteAddrs": ""}).code in {0, 1}
    assert accounts.read_text().startswith(comment)
    assert accounts.stat().st_mode & 0o777 == 0o600
    accounts.write_text(ACCOUNTS)
    with SigningClient(broker.address, ADMIN, "wrong") as stranger:
        eventually(lambda: stranger.ask(106).code == DENIED, "all is checked again")


def test_a_file_that_the_broker_cannot_write(
    broker: BrokerProcess, accounts: Path, tmp_path: Path
) -> None:
    """A folder stands where the new file would be made: root may write everywhere else."""
    blocked = accounts.parent / f".{accounts.name}.new"
    blocked.mkdir()
    try:
        with SigningClient(broker.address, ADMIN) as admin:
            refused = admin.ask(50, GOOD[50].fields)
        assert refused.code == 209
        assert "use `silo acl` there" in str(refused.remark)
    finally:
        blocked.rmdir()
    assert accounts.read_text() == ACCOUNTS
