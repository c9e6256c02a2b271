"""Transactions: halves that nobody sees, their ends, and checks of those that nobody ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    bodies,
    max_offset,
    now_ms,
    pull,
    records,
    send,
)
from support.harness import eventually

from silomq.store.record.format import decode_record
from silomq.store.record.ids import decode_offset_message_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interop.servers import Servers
    from support.remoting_client import RemotingClient

    from silomq.broker.wire.command import Command

PREPARED, COMMIT, ROLLBACK = 4, 8, 12
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"


def prepare(client: RemotingClient, topic: str, body: bytes, group: str, key: str) -> Command:
    """The answer to the half of a transaction, which must be stored."""
    properties = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": group, "TAGS": "TagA"}
    answer = send(client, topic, body, properties=properties, sysFlag=PREPARED)
    assert answer.code == Answer.SUCCESS, answer.remark
    return answer


def end_fields(half: Command, group: str, kind: int, **more: object) -> dict[str, object]:
    """The fields of END_TRANSACTION."""
    _, offset = decode_offset_message_id(half.fields["msgId"])
    return {
        "producerGroup": group, "tranStateTableOffset": half.fields["queueOffset"],
        "commitLogOffset": offset, "commitOrRollback": kind, "fromTransactionCheck": "false",
        "msgId": half.fields["transactionId"], "transactionId": half.fields["transactionId"],
        **more,
    }  # fmt: skip


def end(client: RemotingClient, half: Command, group: str, kind: int, **more: object) -> int:
    """Ends a transaction; the code of the answer."""
    return client.ask(Code.END_TRANSACTION, end_fields(half, group, kind, **more)).code


def beat(client: RemotingClient, client_id: str, group: str) -> None:
    """A heart-beat of a producer."""
    data = {"clientID": client_id, "consumerDataSet": [], "producerDataSet": [{"groupName": group}]}
    assert client.ask(Code.HEART_BEAT, body=json.dumps(data).encode()).code == Answer.SUCCESS


@point(44)
def a_half_is_seen_when_it_is_committed(servers: Servers) -> None:
    servers.open.create_topic("trans-ended")
    with servers.open.connect() as client:
        lost = prepare(client, "trans-ended", b"rolled back", "trans-a", "A" * 32)
        kept = prepare(client, "trans-ended", b"committed", "trans-a", "B" * 32)
        assert kept.fields["transactionId"] == "B" * 32
        assert int(kept.fields["queueOffset"]) > int(lost.fields["queueOffset"])
        assert end(client, lost, "trans-a", ROLLBACK) == Answer.SUCCESS
        assert end(client, kept, "trans-a", COMMIT) == Answer.SUCCESS
        eventually(lambda: max_offset(client, "trans-ended") == 1, "it is dispatched")
        (found,) = records(pull(client, "looking", "trans-ended", 0))
        _, half_at = decode_offset_message_id(kept.fields["msgId"])
        assert found.body == b"committed"
        assert found.sys_flag & 12 == COMMIT
        assert found.prepared_transaction_offset == half_at
        assert found.properties.items() >= {"UNIQ_KEY": "B" * 32, "PGROUP": "trans-a"}.items()


@point(44)
def an_end_that_names_another_half_moves_nothing(servers: Servers) -> None:
    servers.open.create_topic("trans-wrong")
    with servers.open.connect() as client:
        half = prepare(client, "trans-wrong", b"one", "trans-b", "C" * 32)
        fields = end_fields(half, "trans-b", COMMIT)
        offset, place = int(str(fields["commitLogOffset"])), int(half.fields["queueOffset"])
        wrong: tuple[Mapping[str, object], ...] = (
            {"producerGroup": "another"},
            {"tranStateTableOffset": place + 1},
            {"commitLogOffset": 1 << 40},
            {"commitLogOffset": offset + 3},
        )
        for change in wrong:
            answer = client.ask(Code.END_TRANSACTION, {**fields, **change})
            assert answer.code == Answer.SYSTEM_ERROR, change
        assert end(client, half, "trans-b", COMMIT) == Answer.SUCCESS
        eventually(lambda: max_offset(client, "trans-wrong") == 1, "it is dispatched")
        assert bodies(pull(client, "looking", "trans-wrong", 0)) == [b"one"]


@point(44, 45)
def a_producer_is_asked_about_what_is_open(servers: Servers) -> None:
    """Another connection of the group is asked, and its answer counts."""
    servers.open.create_topic("trans-open")
    with servers.open.connect() as client:
        began = now_ms()
        half = prepare(client, "trans-open", b"open", "trans-c", "D" * 32)
    with servers.open.connect() as client:
        beat(client, "trans-c-2", "trans-c")
        check = client.request_of_server(Code.CHECK_TRANSACTION_STATE)
        assert now_ms() - began >= 900, "not before its time"
        record = decode_record(check.body)
        assert (record.topic, record.body) == ("trans-open", b"open")
        assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert check.fields["msgId"] == check.fields["transactionId"] == "D" * 32
        place = int(check.fields["tranStateTableOffset"])
        assert place > int(half.fields["queueOffset"]), "it was put once more"
        fields = end_fields(half, "trans-c", COMMIT, fromTransactionCheck="true")
        fields["tranStateTableOffset"] = place
        fields["commitLogOffset"] = check.fields["commitLogOffset"]
        client.tell(Code.END_TRANSACTION, fields)
        eventually(lambda: max_offset(client, "trans-open") == 1, "it is committed")
        assert bodies(pull(client, "looking", "trans-open", 0)) == [b"open"]
