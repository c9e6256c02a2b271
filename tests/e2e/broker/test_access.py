"""A broker that asks for accounts: who is served, with what, and a file that changes."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import (
    GOOD,
    GROUP,
    heart_beat,
    pop_fields,
    pull_fields,
    send_fields,
    spoiled,
)
from support.brokers import BrokerProcess
from support.commands import SILO
from support.harness import WAIT_S, eventually
from support.remoting_client import RemotingClient
from support.signers import ACCOUNTS, ADMIN, GUEST, READER, SECRET, SigningClient

from silomq.broker.access.needs import NEEDS
from silomq.broker.server import Broker
from silomq.broker.wire.address import Address
from silomq.broker.wire.command import ANSWER, Command, Serialization
from silomq.conf.broker_settings import BrokerSettings
from silomq.store.record.javahash import index_key_hash, java_string_hash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.harness import StoreProcess

DENIED = 16


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accounts") / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def broker_settings(accounts: Path) -> tuple[str, ...]:
    return ("aclEnable=true", f"rocketmq.acl.plain.file={accounts}")


@pytest.fixture(params=list(Serialization))
def reader(
    broker: BrokerProcess, request: pytest.FixtureRequest, client: RemotingClient
) -> Iterator[SigningClient]:
    """An account's client in one of the serialisations, beside one that does not sign."""
    client.form = request.param
    with SigningClient(broker.address, READER, form=request.param) as connected:
        yield connected


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[SigningClient]:
    with SigningClient(broker.address, ADMIN) as connected:
        yield connected


def short(topic: str) -> dict[str, object]:
    return {**GOOD[310].fields, "b": topic}


def test_what_is_signed_is_served(reader: SigningClient, client: RemotingClient) -> None:
    body = reader.form.name.encode()
    for _ in range(3):  # the first makes the topic, the others take the fast path
        assert reader.ask(10, send_fields("orders"), body).code == 0
        assert reader.ask(310, short("orders"), body).code == 0
        assert reader.ask(310, short("sent-only"), body).code == 0
    assert reader.ask(320, GOOD[320].fields, GOOD[320].body).code == 0
    assert reader.ask(34, {}, heart_beat()).code == 0
    eventually(
        lambda: body in reader.ask(11, pull_fields("orders")).body, "a message is dispatched"
    )
    assert reader.ask(15, GOOD[15].fields).code == 0
    assert reader.ask(14, GOOD[14].fields).code == 0
    refused = client.ask(11, pull_fields("orders"))
    assert (refused.code, refused.body) == (DENIED, b"")
    assert "no AccessKey" in (refused.remark or "")


def test_wrong_secrets_and_changed_requests(reader: SigningClient, broker: BrokerProcess) -> None:
    first = int(reader.ask(310, short("orders"), b"x").fields["queueOffset"])
    request = reader.command(310, short("orders"), b"x")
    request.body = b"y"
    reader.send_bytes(request.encode())
    assert reader.answer(request.opaque).code == DENIED
    request = reader.command(310, short("orders"), b"x")
    request.fields["b"] = "sent-only"
    reader.send_bytes(request.encode())
    assert reader.answer(request.opaque).code == DENIED
    with SigningClient(broker.address, READER, "wrong", form=reader.form) as thief:
        for code, asked in GOOD.items():
            answer = thief.ask(code, asked.fields, asked.body)
            assert answer.code == DENIED, code
            assert "signature" in (answer.remark or "")
            assert SECRET not in (answer.remark or "")
        assert thief.tell(310, short("orders"), b"one-way")
        assert thief.ask(310, short("orders"), b"x").code == DENIED
    last = int(reader.ask(310, short("orders"), b"x").fields["queueOffset"])
    assert last == first + 1, "nothing was stored"


def test_what_an_account_lacks(reader: SigningClient, admin: SigningClient) -> None:
    def refusal(code: int, fields: dict[str, object], body: bytes = b"") -> str:
        answer = reader.ask(code, fields, body)
        assert answer.code == DENIED, answer
        return answer.remark or ""

    for topic in ("sent-only", "read-only", "elsewhere"):
        assert admin.ask(310, short(topic), b"x").code == 0
    for _ in range(2):
        assert "PUB of topic 'elsewhere'" in refusal(310, short("elsewhere"), b"x")
        assert "PUB of topic 'read-only'" in refusal(10, send_fields("read-only"), b"x")
        assert "SUB of topic 'sent-only'" in refusal(11, pull_fields("sent-only"))
        assert "SUB of group 'else'" in refusal(11, pull_fields("orders", consumerGroup="else"))
    assert "SUB of group 'else'" in refusal(34, {}, heart_beat(group="else"))
    other = heart_beat(subscriptionDataSet=[{"topic": "sent-only"}])
    assert "SUB of topic 'sent-only'" in refusal(34, {}, other)
    assert "SUB of group 'else'" in refusal(310, short("%RETRY%else"), b"x")
    for code in (17, 50, 51, 52, 53, 200, 215, 222, 307, 309, 329):
        assert "administrator" in refusal(code, dict(GOOD[code].fields), GOOD[code].body)
    assert reader.ask(11, pull_fields("read-only")).code != DENIED


def test_a_route_makes_the_retry_topic_of_an_own_group_only(
    reader: SigningClient, admin: SigningClient
) -> None:
    assert reader.ask(105, {"topic": f"%RETRY%{GROUP}"}).code == 0
    assert reader.ask(105, {"topic": "%RETRY%foreign"}).code == 17
    assert admin.ask(105, {"topic": "%RETRY%foreign"}).code == 0
    assert admin.ask(215, {"topic": "%RETRY%foreign"}).code == 0


def test_messages_by_their_offset_are_of_their_own_topic(
    reader: SigningClient, admin: SigningClient
) -> None:
    def offset_of(topic: str) -> int:
        return int(admin.ask(310, short(topic), b"hidden").fields["msgId"][16:], 16)

    for topic, code in (("orders", 0), ("elsewhere", DENIED), ("sent-only", DENIED)):
        place = {"offset": offset_of(topic)}
        seen = reader.ask(33, place)
        assert (seen.code, b"hidden" in seen.body) == (code, code == 0)
        back = {**place, "group": "readers", "delayLevel": 3, "originTopic": "orders"}
        assert reader.ask(36, back).code == code


def collision(topic: str, other: str) -> str:
    """A key that has the same hash in the index under `topic` as the text `other` has."""
    wanted = java_string_hash(other) - java_string_hash(f"{topic}#" + "0" * 7) & 0xFFFF_FFFF
    digits = []
    for _ in range(7):
        wanted, digit = divmod(wanted, 31)
        digits.append(chr(ord("0") + digit))
    return "".join(reversed(digits))


def test_a_key_finds_messages_of_its_own_topic_only(
    reader: SigningClient, admin: SigningClient
) -> None:
    name = f"K{reader.form}"
    key = collision("orders", f"elsewhere#{name}")
    assert index_key_hash("orders", key) == index_key_hash("elsewhere", name)
    assert admin.ask(10, send_fields("elsewhere", name), b"secret").code == 0
    found = {"topic": "elsewhere", "key": name, "maxNum": 9}
    times = {"beginTimestamp": 0, "endTimestamp": 2**62}
    eventually(lambda: admin.ask(12, {**found, **times}).code == 0, "it is in the index")
    answer = reader.ask(12, {"topic": "orders", "key": key, "maxNum": 9, **times})
    assert b"secret" not in answer.body


def test_what_is_relayed_brings_no_signature(reader: SigningClient, admin: SigningClient) -> None:
    client_id = f"c{reader.form}"
    assert reader.ask(34, {}, heart_beat(client_id)).code == 0
    fields = {"consumerGroup": GROUP, "clientId": client_id, "jstackEnable": "false"}
    opaque = admin.send(307, fields)
    asked = reader.request_of_server(307)
    assert asked.fields == fields
    reader.send_bytes(Command(0, {}, b"{}", asked.opaque, ANSWER).encode())
    assert admin.answer(opaque).code == 0


def test_a_timer_of_another_topic_is_not_cancelled(reader: SigningClient) -> None:
    for other, code in (("orders", 0), ("elsewhere", 13)):
        properties = {
            "UNIQ_KEY": "C", "TIMER_DELIVER_MS": str(int(time.time() * 1000) + 60_000),
            "TIMER_DEL_UNIQKEY": f"{other}+K",
        }  # fmt: skip
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        answer = reader.ask(10, send_fields("orders", properties=text), b"x")
        assert answer.code == code, answer.remark


def test_an_administrator_may(admin: SigningClient, broker: BrokerProcess) -> None:
    assert admin.ask(17, {**GOOD[17].fields, "topic": "made"}).code == 0
    assert admin.ask(105, {"topic": "made"}).code == 0
    assert admin.ask(200, {}, json.dumps({"groupName": "else"}).encode()).code == 0
    assert admin.ask(215, {"topic": "made"}).code == 0
    with SigningClient(broker.address, GUEST) as guest:
        assert guest.ask(105, {"topic": "orders"}).code == 0
        assert guest.ask(310, short("orders")).code == DENIED
        assert guest.ask(310, short("RMQ_SYS_TRACE_TOPIC"), b"trace").code == 0
    eventually(lambda: "requests refused" in broker.log(), "the refusals are logged")
    assert SECRET not in broker.log()


def test_the_log_says_what_a_processor_denies(admin: SigningClient, broker: BrokerProcess) -> None:
    """The topic of this request is known only when its message was read. Nobody waits for the
    answer, as with END_TRANSACTION.
    """
    sent = admin.ask(10, send_fields("elsewhere"), b"x")
    assert sent.code == 0, sent.remark
    offset = int(sent.fields["msgId"][16:], 16)
    with SigningClient(broker.address, READER) as reader:
        reader.tell(33, {"offset": offset})
        why = f"account '{READER}' lacks SUB of topic 'elsewhere'"
        eventually(lambda: why in broker.log(), "it is logged")


def test_users_and_rules_of_rocketmq_5(admin: SigningClient, broker: BrokerProcess) -> None:
    """They are the accounts of the file, and are in force when the answer comes."""
    name = {"username": "five-key"}
    user = json.dumps({"password": SECRET, "userType": "Normal"}).encode()
    assert admin.ask(3001, name, user).code == 0
    assert (admin.ask(3001, name, user).remark or "") == "The user is existed"
    told = {"password": SECRET, "userStatus": "enable", "userType": "Normal", **name}
    assert json.loads(admin.ask(3004, name).body) == told
    assert json.loads(admin.ask(3005, {"filter": "five"}).body) == [told]
    assert admin.ask(3004, {"username": "nobody-key"}).body == b""
    subject = {"subject": "User:five-key"}
    rule = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    rules = json.dumps({"policies": [{"policyType": "Custom", "entries": [rule]}]}).encode()
    with SigningClient(broker.address, "five-key") as five:
        assert five.ask(310, short("orders")).code == DENIED
        assert admin.ask(3006, subject, rules).code == 0
        assert five.ask(310, short("orders"), b"x").code == 0
        assert five.ask(3004, name).code == DENIED
        found = json.loads(admin.ask(3009, subject).body)
        assert found["policies"][0]["entries"] == [rule]
        listed = admin.ask(3010, {"subjectFilter": "five", "resourceFilter": "Topic:orders"})
        assert json.loads(listed.body) == [{**found, "policies": found["policies"][:1]}]
        refused = admin.ask(3007, subject, rules.replace(b"Topic:orders", b"Topic:ord*"))
        assert (refused.code, "parts of names" in (refused.remark or "")) == (29, True)
        assert admin.ask(3008, {**subject, "resource": "Topic:orders"}).code == 0
        assert five.ask(310, short("orders"), b"x").code == DENIED
        more = json.dumps({"userType": "Super"}).encode()
        assert admin.ask(3002, name, more).code == 0
        assert five.ask(310, short("orders"), b"x").code == 0
        assert admin.ask(3003, name).code == 0
        assert five.ask(310, short("orders"), b"x").code == DENIED
    assert admin.ask(3002, name, user).code == DENIED
    assert admin.ask(3009, subject).code == DENIED
    assert SECRET not in broker.log()


@pytest.mark.parametrize("code", [34, 35, 36, 41, 46])
def test_bad_values_get_an_answer(reader: SigningClient, code: int) -> None:
    opaques = [reader.send(code, one.fields, one.body) for one in spoiled(code)]
    for opaque in opaques:
        answer = reader.answer(opaque)
        assert len(answer.remark or "") < 2000
        assert "defect" not in (answer.remark or "")


def test_what_is_allowed_needs_no_python(store: StoreProcess, accounts: Path) -> None:
    settings = BrokerSettings(acl_enable=True, acl_file=str(accounts))
    broker = Broker(str(store.path), settings)
    address = broker.listen(Address("127.0.0.1", 0), WAIT_S, lambda _: None)
    assert set(broker._handlers) <= set(NEEDS), "say what a new request needs"
    thread = threading.Thread(target=broker.loop.run)
    thread.start()
    try:
        with SigningClient(str(address), READER) as reader:
            for fast, code, fields in (
                (broker.fast.send, 310, short("orders")),
                (broker.fast.pull, 11, pull_fields("orders")),
            ):
                before = fast.counted()
                for _ in range(50):
                    assert reader.ask(code, fields, b"x").code == 0
                    time.sleep(0.005)  # a group's first commit asks the store
                assert fast.counted() != before
                before = fast.counted()
                reader.secret = "wrong"
                assert reader.ask(code, fields, b"x").code == DENIED
                assert fast.counted() == before
                reader.secret = SECRET
    finally:
        broker.loop.call_from_thread(broker.loop.stop)
        thread.join()
        broker.close()


def test_a_file_that_changes_under_it(
    reader: SigningClient, accounts: Path, broker: BrokerProcess
) -> None:
    def is_served() -> bool:
        return reader.ask(310, short("orders"), b"x").code == 0

    assert is_served()
    accounts.write_text(ACCOUNTS.replace("orders=PUB|SUB", "orders=SUB"))
    eventually(lambda: not is_served(), "the account may not send")
    size = len(broker.log())
    accounts.write_text(ACCOUNTS + "    admin: maybe\n")
    eventually(lambda: "new accounts are not used" in broker.log()[size:], "the error is told")
    assert not is_served()
    accounts.write_text(ACCOUNTS)
    eventually(is_served, "the account may send again")


def test_what_is_held_is_checked_again(
    reader: SigningClient, admin: SigningClient, accounts: Path
) -> None:
    queue = {"topic": "orders", "queueId": 0}
    end = int(reader.ask(30, queue).fields["offset"])
    eventually(lambda: reader.ask(200050, pop_fields("orders")).code != 0, "all is popped")
    hold_ms = int(WAIT_S * 1000)
    pull = pull_fields("orders", end, sysFlag=6, suspendTimeoutMillis=hold_ms)
    notice = {**queue, "consumerGroup": GROUP, "pollTime": hold_ms}
    held = [
        reader.send(11, pull),
        reader.send(200050, pop_fields("orders", pollTime=hold_ms, initMode=1)),
        reader.send(200054, notice),
    ]
    reader.listen(0.3)
    assert not reader.answers.keys() & set(held)
    accounts.write_text(ACCOUNTS.replace("orders=PUB|SUB", "orders=PUB"))
    try:
        eventually(lambda: reader.ask(30, queue).code == DENIED, "the account may not read")
        assert admin.ask(310, short("orders"), b"not for the reader").code == 0
        assert {reader.answer(one).code for one in held} == {DENIED}
    finally:
        accounts.write_text(ACCOUNTS)
        eventually(lambda: reader.ask(30, queue).code == 0, "the account may read again")


def test_accounts_open_an_address(store: StoreProcess, accounts: Path) -> None:
    settings = (f"aclEnable={flag}" for flag in ("true", "false"))
    with BrokerProcess(store.path, next(settings), f"acl_file={accounts}", listen="0.0.0.0:0"):
        pass
    command = [*SILO, "broker", "--store", str(store.path), "--listen", "0.0.0.0:0"]
    done = subprocess.run(
        [*command, "--set", next(settings)],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "acl_enable, acl_file" in done.stderr


@pytest.mark.parametrize("text", [None, "accounts: 3"])
def test_accounts_that_cannot_be_used(
    store: StoreProcess, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "plain_acl.yml"
    if text is not None:
        path.write_text(text)
    command = [*SILO, "broker", "--store", str(store.path), "--listen", "127.0.0.1:0"]
    command += ["--set", "aclEnable=true", "--set", f"acl_file={path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode != 0
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
