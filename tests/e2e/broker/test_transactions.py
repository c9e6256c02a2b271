"""Transactions through a broker: hostile ends, kills of brokers and processes, both kinds of
producers in one group.
"""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from interop.conformance.transactions import COMMIT, ROLLBACK, beat, end, end_fields, prepare
from support.broker_requests import send_fields
from support.brokers import BrokerProcess
from support.harness import LONG, StoreProcess, eventually
from support.remoting_client import Disconnected, RemotingClient
from support.signers import ADMIN, SigningClient

from silomq import Consumer, StoreReader, TransactionProducer
from silomq.client.transactions.open_transactions import open_transactions
from silomq.store.names import TRANS_END_TOPIC
from silomq.store.record.ids import decode_offset_message_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ILLEGAL, DENIED, SYSTEM_ERROR = 13, 16, 1
CHECK = 39
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
#: Producers are asked at once, and often.
SOON = {"transaction_timeout_ms": 300, "transaction_check_interval_ms": 300}


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {**SOON, "transaction_check_max": 1000}


def committed(store: StoreProcess, topic: str, count: int) -> list[bytes]:
    """The bodies of a topic, as soon as there are so many, and none comes behind them."""
    found: list[bytes] = []
    with Consumer(store.path, topic, offset="earliest") as consumer:

        def look() -> bool:
            found.extend(bytes(one.body) for one in consumer.poll(256, timeout=0.1))
            return len(found) >= count

        eventually(look, f"{count} messages of {topic}")
        found += [bytes(one.body) for one in consumer.poll(256, timeout=0.3)]
    return found


def is_open(store: StoreProcess, key: str) -> bool:
    return key in {one.message_id for one in open_transactions(store.path)}


def test_a_decision_that_comes_again_moves_nothing(
    client: RemotingClient, store: StoreProcess, topic: str
) -> None:
    kept, lost = (prepare(client, topic, one, "g", f"{topic}{one!a}") for one in (b"k", b"l"))
    for _ in range(20):
        assert end(client, kept, "g", COMMIT) == 0
        assert end(client, lost, "g", ROLLBACK) == 0
    for _ in range(20):
        end(client, kept, "g", ROLLBACK)
        end(client, lost, "g", COMMIT)
    last = prepare(client, topic, b"last", "g", f"{topic}last")
    assert end(client, last, "g", COMMIT) == 0
    assert committed(store, topic, 2) == [b"k", b"last"]


def test_ends_that_name_other_records(
    client: RemotingClient, store: StoreProcess, topic: str
) -> None:
    """Offsets within a record, of a message, behind the log; numbers that do not fit; kinds that
    are none.
    """
    sent = client.ask(10, send_fields(topic), b"plain")
    _, plain = decode_offset_message_id(sent.fields["msgId"])
    half = prepare(client, topic, b"half", "g", f"{topic}half")
    good = end_fields(half, "g", COMMIT)
    at = int(str(good["commitLogOffset"]))
    for offset in (plain, at + 1, at + 88, at - 1, -1, 2**62, 2**63 - 1):
        answer = client.ask(37, {**good, "commitLogOffset": offset})
        assert answer.code == SYSTEM_ERROR, offset
        assert answer.remark
    for kind in (1, 4, 9, -8, 2**31 - 1):
        assert client.ask(37, {**good, "commitOrRollback": kind}).code == SYSTEM_ERROR
    assert client.ask(37, {**good, "commitOrRollback": 0}).code == 0, "not known yet"
    assert is_open(store, f"{topic}half")
    assert end(client, half, "g", COMMIT) == 0
    assert committed(store, topic, 2) == [b"plain", b"half"]


def test_a_flood_of_decisions_is_not_stored(
    client: RemotingClient, broker: BrokerProcess, store: StoreProcess, topic: str
) -> None:
    """Only the first decision about a half becomes a record, so honest ones need not wait."""
    prepare(client, topic, b"open", "g", f"{topic}open")
    ended, decided, mine = (
        prepare(client, topic, one, "g", f"{topic}{one!a}") for one in (b"e", b"d", b"m")
    )
    assert end(client, ended, "g", ROLLBACK) == 0
    eventually(lambda: not is_open(store, f"{topic}{b'e'!a}"), "it has ended")
    good = end_fields(mine, "g", COMMIT)
    at = int(str(good["commitLogOffset"]))
    flood = [
        end_fields(ended, "g", COMMIT),
        end_fields(decided, "g", ROLLBACK),
        {**good, "producerGroup": "other"},
        {**good, "commitLogOffset": at + 1},
        {**good, "commitLogOffset": 2**62},
        {**good, "tranStateTableOffset": 2**40},
    ]
    before = decisions(store)
    with RemotingClient(broker.address) as hostile:
        for number in range(6000):
            hostile.tell(37, flood[number % len(flood)])
            if number == 3000:
                assert end(client, mine, "g", COMMIT) == 0
        assert hostile.ask(37, {**good, "producerGroup": "other"}).code == SYSTEM_ERROR
    assert committed(store, topic, 1) == [b"m"]
    assert decisions(store) == before + 2, "one about each half"
    said = broker.log().count("decisions of transactions were refused")
    assert 0 < said < 200, "the log is bounded"


def decisions(store: StoreProcess) -> int:
    """How many decisions the store has taken in."""
    store.await_dispatch()
    with StoreReader(store.path) as reader:
        return reader.max_offset(TRANS_END_TOPIC, 0)


def test_halves_that_nobody_could_end(client: RemotingClient, topic: str) -> None:
    def code(flag: int, **properties: str) -> int:
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        return client.ask(10, send_fields(topic, sysFlag=flag, properties=text), b"x").code

    assert code(4, UNIQ_KEY="a") == ILLEGAL, "sysFlag alone makes no half"
    assert code(12, UNIQ_KEY="b") == ILLEGAL
    assert code(4, TRAN_MSG="true", UNIQ_KEY="c") == ILLEGAL, "no group"
    assert code(4, TRAN_MSG="true", PGROUP="g" * 256) == ILLEGAL, "a name that is none"
    assert code(4, TRAN_MSG="true", PGROUP="g", TIMER_DELAY_SEC="5") == ILLEGAL
    assert code(4, TRAN_MSG="true", PGROUP="g", DELAY="3", UNIQ_KEY="d") == 0
    assert code(0, TRAN_MSG="TRUE", PGROUP="g", UNIQ_KEY="e") == 0
    assert client.ask(30, {"topic": topic, "queueId": 0}).fields["offset"] == "0"


def test_the_store_counts_checks(client: RemotingClient, store: StoreProcess, topic: str) -> None:
    """A half that says that it was checked often is asked about as any other."""
    more = {"UNIQ_KEY": topic, "TRAN_MSG": "true", "PGROUP": topic}
    lies = {"TRANSACTION_CHECK_TIMES": "999999", "TRAN_PREPARED_QUEUE_OFFSET": "0"}
    lies["TRAN_FIRST_HALF"] = "0 0"  # it would be given up for its age
    text = "".join(f"{name}\x01{value}\x02" for name, value in {**more, **lies}.items())
    fields = send_fields(topic, sysFlag=4, properties=text, bornTimestamp=int(time.time() * 1000))
    assert client.ask(10, fields, b"x").code == 0
    beat(client, "c", topic)
    check = client.request_of_server(CHECK)
    assert (check.fields["msgId"], b"TRANSACTION_CHECK_TIMES\x011\x02" in check.body) == (
        topic,
        True,
    )
    assert b"TRAN_FIRST_HALF\x010 0\x02" not in check.body


def test_producers_of_both_kinds_are_asked(
    client: RemotingClient, store: StoreProcess, topic: str
) -> None:
    """A group may have clients of the store and of the broker: the first answer counts."""
    asked: list[bytes] = []

    def answer(message: Any) -> bool:
        asked.append(message.body)
        return True

    half = prepare(client, topic, b"remote", topic, f"{topic}remote")
    assert half.code == 0
    with TransactionProducer(store.path, topic, check=answer) as producer:
        eventually(lambda: asked == [b"remote"], "the local producer is asked")
        assert committed(store, topic, 1) == [b"remote"]
    with TransactionProducer(store.path, topic) as producer:
        producer.begin(topic, b"local")
    beat(client, "c", topic)
    check = client.request_of_server(CHECK)
    assert end(client, half, topic, COMMIT) == 0, "about what has ended: nothing moves"
    fields = {
        "producerGroup": topic, "tranStateTableOffset": check.fields["tranStateTableOffset"],
        "commitLogOffset": check.fields["commitLogOffset"], "commitOrRollback": COMMIT,
        "fromTransactionCheck": "true",
    }  # fmt: skip
    assert client.ask(37, fields).code == 0
    assert sorted(committed(store, topic, 2)) == [b"local", b"remote"]


def test_a_broker_that_comes_back_asks_about_what_was_checked_meanwhile(
    tmp_path: Path,
) -> None:
    """The next check is far away. The one that came while no broker ran is made up for."""
    settings: dict[str, Any] = {
        "transaction_timeout_ms": 200,
        "transaction_check_interval_ms": 600_000,
    }
    with StoreProcess(tmp_path / "store", **settings) as store:
        with (
            BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
            RemotingClient(broker.address) as client,
        ):
            prepare(client, "t", b"one", "g", "one")
            half = prepare(client, "t", b"two", "g", "two")
            assert end(client, half, "g", COMMIT) == 0
        eventually(
            lambda: [one.checks for one in open_transactions(store.path)] == [1], "it is checked"
        )
        with (
            BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
            RemotingClient(broker.address) as client,
        ):
            beat(client, "c", "g")
            assert client.request_of_server(CHECK).fields["msgId"] == "one"
            time.sleep(0.5)
            assert client.requests == [], "what was ended is not asked about"


def test_what_was_given_up_can_be_opened_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SOON, "transaction_check_max": 1}
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):
        half = prepare(client, "t", b"late", "g", "late")
        refused = client.ask(323, {"topic": "t", "msgId": half.fields["msgId"]})
        assert refused.code == SYSTEM_ERROR
        assert GIVEN_UP in (refused.remark or "")
        with Consumer(store.path, GIVEN_UP, offset="earliest") as consumer:
            (message,) = consumer.poll(1, timeout=30)
            again = message.offset_message_id
        eventually(lambda: not is_open(store, "late"), "it is given up")
        assert client.ask(323, {"topic": "t", "msgId": again}).code == 0
        beat(client, "c", "g")
        check = client.request_of_server(CHECK)
        fields = {
            "producerGroup": "g", "commitOrRollback": COMMIT,
            "tranStateTableOffset": check.fields["tranStateTableOffset"],
            "commitLogOffset": check.fields["commitLogOffset"],
        }  # fmt: skip
        assert client.ask(37, fields).code == 0
        assert committed(store, "t", 1) == [b"late"]


def test_a_broker_may_refuse_transactions(store: StoreProcess, topic: str) -> None:
    with (
        BrokerProcess(store.path, "rejectTransactionMessage=true", listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):
        text = f"UNIQ_KEY\x01{topic}\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02"
        assert client.ask(10, send_fields(topic, sysFlag=4, properties=text), b"x").code == DENIED
        assert client.ask(10, send_fields(topic), b"x").code == 0


def test_who_may_not_send_ends_no_transaction(
    store: StoreProcess, topic: str, tmp_path: Path
) -> None:
    group = f"of-{topic}"  # other tests have left transactions of g open
    accounts = tmp_path / "plain_acl.yml"
    secret = "12345678"
    may_read = {"accessKey": "only-reads", "secretKey": secret, "topicPerms": [f"{topic}=SUB"]}
    administers = {"accessKey": ADMIN, "secretKey": secret, "admin": True}
    accounts.write_text(json.dumps({"accounts": [administers, may_read]}))
    accounts.chmod(0o600)
    with (
        BrokerProcess(
            store.path, "aclEnable=true", f"acl_file={accounts}", listen="127.0.0.1:0"
        ) as broker,
        SigningClient(broker.address, ADMIN, secret) as admin,
        SigningClient(broker.address, "only-reads", secret) as reader,
    ):
        beat(reader, "a listener", group)
        half = prepare(admin, topic, b"x", group, topic)
        reader.listen(1.0)
        assert reader.requests == [], "a check shows the message to who may not send it"
        beat(admin, "a producer", group)
        assert b"x" in admin.request_of_server(CHECK).body
        assert end(reader, half, group, COMMIT) == DENIED
        assert is_open(store, topic)
        assert end(admin, half, group, COMMIT) == 0
        assert committed(store, topic, 1) == [b"x"]


class Load:
    """Producers that begin transactions through a broker which is killed: some are committed, some
    rolled back, some left to their checks, which commit every second one.
    """

    def __init__(self, broker: BrokerProcess, topic: str, seed: int) -> None:
        self.broker = broker
        self.topic = topic
        self.chance = random.Random(seed)
        self.count = 0
        self.wanted: set[bytes] = set()
        self.never: set[bytes] = set()
        self.unknown: set[bytes] = set()

    def turn(self) -> None:
        """Ten transactions on one connection; the broker may die meanwhile."""
        for _ in range(10):
            self.count += 1
            kind = self.chance.choice(("commit", "roll back", "asked commit", "asked roll back"))
            body = f"{self.count:06d} {kind}".encode()
            (self.never if b"roll" in body else self.unknown).add(body)
            try:
                with RemotingClient(self.broker.address) as client:
                    half = prepare(client, self.topic, body, "load", body.decode())
                    # From here on it is known that the store has the half.
                    if "asked" in kind:
                        self._is_wanted(body)
                        continue
                    ended = end(client, half, "load", COMMIT if kind == "commit" else ROLLBACK)
                    if ended == 0:
                        self._is_wanted(body)
            except (Disconnected, OSError, AssertionError):
                continue

    def _is_wanted(self, body: bytes) -> None:
        if body in self.unknown:
            self.unknown.discard(body)
            self.wanted.add(body)

    def answer(self, seconds: float, done: Any) -> None:
        """Answers checks as the bodies say, until `done()`."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, "transactions stay open"
            try:
                with RemotingClient(self.broker.address) as client:
                    beat(client, "answers", "load")
                    self._answer_on(client, done)
            except (Disconnected, OSError):
                time.sleep(0.05)

    def _answer_on(self, client: RemotingClient, done: Any) -> None:
        until = time.monotonic() + 1.0
        while time.monotonic() < until and not done():
            try:
                check = client.request_of_server(CHECK, 0.2)
            except AssertionError:
                continue
            kind = ROLLBACK if b"roll" in check.body else COMMIT
            fields = {
                "producerGroup": "load", "commitOrRollback": kind, "fromTransactionCheck": "true",
                "tranStateTableOffset": check.fields["tranStateTableOffset"],
                "commitLogOffset": check.fields["commitLogOffset"],
            }  # fmt: skip
            client.tell(37, fields)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[tuple[StoreProcess, BrokerProcess]]:
    settings: dict[str, Any] = {**SOON, "transaction_check_max": 1000}
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
    ):
        broker.command[-1] = broker.address  # it comes back at the same address
        yield store, broker


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=LONG)])
def test_kills_of_everything(killed: tuple[StoreProcess, BrokerProcess], rounds: int) -> None:
    """Each committed message is delivered once, no other one ever, and nothing stays open."""
    store, broker = killed
    load = Load(broker, "t", rounds)
    for turn in range(rounds):
        load.turn()
        victim = load.chance.choice(("broker", "transactions", "append", "reput", "registry"))
        if victim == "broker":
            broker.kill()
            broker.start()
        else:
            store.kill(victim)
        if turn % 4 == 3:
            load.turn()
    load.answer(60, lambda: not open_transactions(store.path))
    found = committed(store, "t", len(load.wanted))
    assert len(found) == len(set(found)), "nothing is delivered twice"
    assert load.wanted <= set(found) <= load.wanted | load.unknown
    assert not load.never & set(found)
    print(len(load.wanted), "committed,", len(load.never), "rolled back,", load.count, "in all")
