"""What RocketMQ's tools ask of a broker: topics, groups, offsets, figures and settings."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.broker_requests import GROUP, TOPIC, heart_beat, pull_fields, send_fields
from support.brokers import BrokerProcess
from support.harness import StoreProcess, eventually
from support.remoting_client import RemotingClient
from support.small_settings import SMALL

from silomq.bench.loopback import free_port
from silomq.broker.wire.command import ANSWER, Command
from silomq.store.config import topics

if TYPE_CHECKING:
    from pathlib import Path

KEY = re.compile(rb'({"brokerName":"[^"]*","queueId":(\d+),"topic":"[^"]*"}):')


def ask(client: RemotingClient, code: int, body: bytes = b"", /, **fields: object) -> Any:
    """The body of an answer, which must be a success. Queues in the place of keys become their
    number.
    """
    answer = client.ask(code, fields, body)
    assert answer.code == 0, (code, answer.code, answer.remark)
    text = KEY.sub(rb'"\2":', answer.body)
    return json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', text)) if text else None


def make_topic(client: RemotingClient, topic: str, queues: int = 1, **more: object) -> None:
    fields = {"readQueueNums": queues, "writeQueueNums": queues, "perm": 6, **more}
    ask(client, 17, topic=topic, **fields)


def make_group(client: RemotingClient, group: str, **config: object) -> None:
    ask(client, 200, json.dumps({"groupName": group, **config}).encode())


def send(client: RemotingClient, topic: str, count: int, queue_id: int = 0) -> None:
    """Sends messages to a new queue, and waits until readers find them."""
    queue = {"topic": topic, "queueId": queue_id}
    for number in range(count):
        assert client.ask(10, send_fields(topic, f"K{number}", queueId=queue_id), b"x").code == 0
    eventually(lambda: client.ask(30, queue).fields["offset"] == str(count), "they are dispatched")


def commit(client: RemotingClient, group: str, topic: str, offset: int, queue_id: int = 0) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
    assert client.ask(15, fields).code == 0


def offsets(client: RemotingClient, group: str, topic: str) -> dict[str, int]:
    found = ask(client, 208, consumerGroup=group, topic=topic)["offsetTable"]
    return {queue: one["consumerOffset"] for queue, one in found.items()}


# -- topics and groups


def test_a_topic_keeps_what_rocketmq_keeps(client: RemotingClient, store: StoreProcess) -> None:
    more = {"order": "true", "topicFilterType": "MULTI_TAG", "topicSysFlag": 2}
    make_topic(client, "kept", 2, attributes="+message.type=FIFO,+reserve.time=7", **more)
    make_topic(client, "kept", 3, attributes="-reserve.time", **more)
    expected = {
        "attributes": {"message.type": "FIFO"}, "order": True, "perm": 6, "readQueueNums": 3,
        "topicFilterType": "MULTI_TAG", "topicName": "kept", "topicSysFlag": 2,
        "writeQueueNums": 3,
    }  # fmt: skip
    assert ask(client, 351, topic="kept") == expected
    assert ask(client, 21)["topicConfigTable"]["kept"] == expected
    found, _ = topics.load(store.path / "config" / "topics.json")
    assert found.topics["kept"].attributes == {"message.type": "FIFO"}
    assert client.ask(351, {"topic": "none"}).code == 17


def test_the_topic_from_which_others_are_made(client: RemotingClient, change: Any) -> None:
    found = ask(client, 351, topic="TBW102")
    assert (found["perm"], found["writeQueueNums"]) == (7, 8)
    assert ask(client, 21)["topicConfigTable"]["TBW102"] == found
    assert len(ask(client, 202, topic="TBW102")["offsetTable"]) == 8
    assert change("autoCreateTopicEnable=false")[0] == 0
    assert client.ask(351, {"topic": "TBW102"}).code == 17
    assert client.ask(202, {"topic": "TBW102"}).code == 17
    assert "TBW102" not in ask(client, 21)["topicConfigTable"]
    assert change("autoCreateTopicEnable=true")[0] == 0


def test_a_bad_topic_in_a_list_makes_none(client: RemotingClient) -> None:
    def listed(*names: str, **more: object) -> bytes:
        return json.dumps({"topicConfigList": [{"topicName": n, **more} for n in names]}).encode()

    assert client.ask(18, {}, listed("good-1", "bad.2")).code == 29
    assert client.ask(18, {}, listed("good-1", attributes={"+no.such": "1"})).code == 1
    assert client.ask(351, {"topic": "good-1"}).code == 17
    ask(client, 18, listed("good-1", "good-2", readQueueNums=2))
    assert ask(client, 351, topic="good-2")["readQueueNums"] == 2


def test_pages_of_topics(client: RemotingClient) -> None:
    for number in range(3):
        make_topic(client, f"paged-{number}")
    answer = client.ask(21, {"topicSeq": 1, "maxTopicNum": 2})
    total = int(answer.fields["totalTopicNum"])
    assert total >= 3
    assert len(json.loads(answer.body)["topicConfigTable"]) == 2
    assert len(ask(client, 21)["topicConfigTable"]) == total


def test_a_group_keeps_what_rocketmq_keeps(client: RemotingClient) -> None:
    given = {
        "brokerId": 1, "consumeFromMinEnable": False, "consumeMessageOrderly": True,
        "consumeTimeoutMinute": 9, "groupSysFlag": 1, "whichBrokerWhenConsumeSlowly": 2,
        "retryMaxTimes": 4, "retryQueueNums": 2, "consumeBroadcastEnable": False,
    }  # fmt: skip
    make_group(client, "kept", attributes={"+priority.factor": "3"}, **given)
    found = ask(client, 352, group="kept")
    assert {name: found[name] for name in given} == given
    assert found["attributes"] == {"priority.factor": "3"}
    assert ask(client, 201)["subscriptionGroupTable"]["kept"] == found
    make_group(client, "kept", attributes={"-priority.factor": ""}, **given)
    assert ask(client, 352, group="kept")["attributes"] == {}


def test_a_group_is_forbidden_to_read_a_topic(client: RemotingClient) -> None:
    make_topic(client, "forbidden")
    send(client, "forbidden", 1)
    make_group(client, GROUP)
    asked = {"group": GROUP, "topic": "forbidden"}
    assert client.ask(11, pull_fields("forbidden")).code == 0
    assert ask(client, 353, **asked)["readable"] is True
    assert ask(client, 353, **asked, readable="false")["readable"] is False
    assert client.ask(11, pull_fields("forbidden")).code == 16
    assert ask(client, 353, **asked)["readable"] is False
    assert ask(client, 201)["forbiddenTable"] == {GROUP: {"forbidden": 4}}
    assert ask(client, 353, **asked, readable="true")["readable"] is True
    assert client.ask(11, pull_fields("forbidden")).code == 0
    assert ask(client, 201)["forbiddenTable"] == {}
    assert client.ask(353, {"group": "no-group", "topic": "x", "readable": "true"}).code == 13


def test_a_group_is_deleted_with_its_offsets_or_without(client: RemotingClient) -> None:
    make_topic(client, "deleting")
    send(client, "deleting", 3)
    for clean, left in (("false", 2), ("true", 0)):
        make_group(client, "leaving")
        commit(client, "leaving", "deleting", 2)
        ask(client, 207, groupName="leaving", cleanOffset=clean)
        assert "leaving" not in ask(client, 201)["subscriptionGroupTable"]
        assert offsets(client, "leaving", "deleting") == {"0": left}


# -- offsets and figures


def test_offsets_are_copied_compared_and_listed(client: RemotingClient) -> None:
    make_topic(client, "copied", 2)
    for queue_id in (0, 1):
        send(client, "copied", 5, queue_id)
    for group, at in (("from", 4), ("other", 2)):
        make_group(client, group)
        commit(client, group, "copied", at)
        commit(client, group, "copied", 3, 1)
    make_group(client, "to")
    ask(client, 314, srcGroup="from", destGroup="to", topic="copied", offline="true")
    assert offsets(client, "to", "copied") == {"0": 4, "1": 3}
    assert ask(client, 300, topic="copied")["groupList"] == ["from", "other", "to"]
    assert ask(client, 343, group="to")["topicList"] == ["copied"]
    every = ask(client, 43)["offsetTable"]
    assert every["copied@from"] == every["copied@to"] == {"0": 4, "1": 3}
    asked = {"compareGroup": "other", "topic": "copied", "filterGroups": "to"}
    assert ask(client, 308, **asked)["correctionOffsets"] == {"0": 2, "1": 3}
    asked = {"compareGroup": "from", "topic": "copied", "filterGroups": ""}
    assert ask(client, 308, **asked)["correctionOffsets"] == {"0": 2**63 - 1, "1": 3}


def test_where_rocketmq_would_go_on_with_timers(client: RemotingClient) -> None:
    answer = client.ask(60)
    assert (answer.code, len(answer.body)) in ((0, 56), (1, 0))


def test_how_full_queues_are(client: RemotingClient) -> None:
    make_topic(client, "full", 2)
    make_group(client, "behind")
    before_ms = int(time.time() * 1000)
    send(client, "full", 4)
    commit(client, "behind", "full", 1)
    queues = ask(client, 202, topic="full")["offsetTable"]
    assert (queues["0"]["minOffset"], queues["0"]["maxOffset"]) == (0, 4)
    assert before_ms <= queues["0"]["lastUpdateTimestamp"] <= time.time() * 1000
    assert queues["1"] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    group = ask(client, 208, consumerGroup="behind", topicList="full;none")["offsetTable"]
    assert (group["0"]["brokerOffset"], group["0"]["consumerOffset"]) == (4, 1)
    assert group["0"]["lastTimestamp"] >= before_ms
    assert group["1"]["consumerOffset"] == 0
    first, second = ask(client, 303, topic="full", group="behind")["consumeTimeSpanSet"]
    assert first["minTimeStamp"] <= first["consumeTimeStamp"] <= first["maxTimeStamp"]
    assert first["delayTime"] >= 0
    assert (second["minTimeStamp"], second["delayTime"]) == (-1, 0)
    found = ask(client, 317)
    (stats,) = [one["behind"] for one in found["consumeStatsList"] if "behind" in one]
    assert stats[0]["offsetTable"]["0"]["consumerOffset"] == 1
    assert found["totalDiff"] >= 3
    entries = ask(client, 321, topic="full", queueId=0, index=1, count=2)
    assert (entries["minQueueIndex"], entries["maxQueueIndex"]) == (0, 4)
    assert len(entries["queueData"]) == 2
    assert entries["queueData"][0]["physicSize"] > 0
    assert client.ask(321, {"topic": "full", "queueId": 2, "index": 0, "count": 1}).code == 1
    assert ask(client, 321, topic="full", queueId=0, index=9, count=1)["queueData"] == []


def test_both_paths_are_counted(client: RemotingClient) -> None:
    def totals() -> tuple[int, int]:
        found = ask(client, 28)["table"]
        return int(found["msgPutTotalTodayNow"]), int(found["msgGetTotalTodayNow"])

    make_topic(client, "counted")
    assert client.ask(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "counted"}).code == 1
    puts, gets = totals()
    send(client, "counted", 5)  # the first by Python, the others without
    for _ in range(2):  # likewise
        assert client.ask(11, pull_fields("counted")).code == 0
    eventually(lambda: totals() == (puts + 5, gets + 10), "all are counted")
    queue = ask(client, 208, consumerGroup=GROUP, topic="counted")["offsetTable"]["0"]
    assert (queue["consumerOffset"], queue["pullOffset"]) == (0, 5), "pulled, and not committed"
    for name, key in (
        ("TOPIC_PUT_NUMS", "counted"),
        ("TOPIC_PUT_SIZE", "counted"),
        ("GROUP_GET_NUMS", f"counted@{GROUP}"),
        ("GROUP_GET_SIZE", f"counted@{GROUP}"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
    ):
        found = ask(client, 315, statsName=name, statsKey=key)
        assert found.keys() == {"statsDay", "statsHour", "statsMinute"}, name
    found = ask(client, 28)["table"]
    shown = re.findall(r"\[([^\]]+)\]:(\d+)", found["putMessageDistributeTime"])
    assert sum(int(count) for _, count in shown) >= 5
    assert float(found["putMessageAverageSize"]) > 0


# -- connections


def test_who_is_connected(broker: BrokerProcess, client: RemotingClient) -> None:
    with RemotingClient(broker.address) as member:
        beat = heart_beat("me", "live", consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
        assert member.ask(34, body=beat).code == 0
        found = ask(client, 203, consumerGroup="live")
        (one,) = found["connectionSet"]
        assert (one["clientId"], one["language"]) == ("me", "JAVA")
        assert found["consumeType"] == "CONSUME_PASSIVELY"
        assert found["messageModel"] == "CLUSTERING"
        assert found["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
        assert found["subscriptionTable"][TOPIC]["subString"] == "*"
        (one,) = ask(client, 204, producerGroup="senders")["connectionSet"]
        assert one["clientId"] == "me"
        (one,) = ask(client, 328)["data"]["senders"]
        assert one["remoteIP"].startswith("/127.0.0.1:")
        assert ask(client, 345, group="live", topic=TOPIC)["subscriptionData"]["topic"] == TOPIC
        assert "live" in ask(client, 300, topic=TOPIC)["groupList"]
        assert client.ask(207, {"groupName": "live"}).code == 13, "it has members"
    eventually(lambda: client.ask(203, {"consumerGroup": "live"}).code == 206, "it has gone")
    assert client.ask(204, {"producerGroup": "senders"}).code == 1


def test_where_clients_say_that_they_are(broker: BrokerProcess, client: RemotingClient) -> None:
    fields = {"topic": TOPIC, "group": "asked", "clientAddr": ""}
    assert client.ask(223, fields).code == 206
    with RemotingClient(broker.address) as member:
        assert member.ask(34, body=heart_beat("me", "asked")).code == 0
        for said, expected in (
            (b'{"messageQueueTable":{{"brokerName":"b","queueId":3,"topic":"t"}:7}}', {"3": 7}),
            (b"\xff{{{}:1", {}),
            (b"", {}),
        ):
            opaque = client.send(223, fields)
            asked = member.request_of_server(221)
            assert asked.fields["topic"] == TOPIC
            member.send_bytes(Command(0, {}, said, asked.opaque, ANSWER).encode())
            answer = client.answer(opaque)
            text = KEY.sub(rb'"\2":', answer.body)
            assert json.loads(text) == {"consumerTable": {"me": expected}}


# -- settings


@pytest.fixture
def change(client: RemotingClient) -> Any:
    """Changes settings, and says what came of it."""

    def to(text: str) -> tuple[int, str]:
        answer = client.ask(25, {}, text.encode())
        return answer.code, answer.remark or ""

    return to


def settings_of(client: RemotingClient) -> dict[str, str]:
    lines = client.ask(26).body.decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_settings_change_while_the_broker_runs(client: RemotingClient, change: Any) -> None:
    assert client.ask(10, send_fields("made-1"), b"x").code == 0
    assert change("autoCreateTopicEnable=false\nunknown=1\n")[0] == 0
    assert settings_of(client)["autoCreateTopicEnable"] == "false"
    assert client.ask(10, send_fields("made-2"), b"x").code == 17
    assert change("autoCreateTopicEnable=true")[0] == 0
    assert client.ask(10, send_fields("made-2"), b"x").code == 0
    version = json.loads(client.ask(26).fields["version"])
    assert version["counter"] >= 2


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("listenPort=1", 1, "the store runs"),
        ("brokerName=x", 1, "the broker runs"),
        ("flushDiskType=SYNC_FLUSH", 1, "flushDiskType cannot change while the store runs"),
        ("shortPollingTimeMills=0", 1, "short_polling_time_ms"),
        ("shortPollingTimeMills=1\nbrokerPermission=7", 1, "broker_permission"),
        ("brokerConfigPath=x", 16, "black list"),
        ("nothing", 1, "has no value"),
    ],
)
def test_settings_that_may_not_change(
    client: RemotingClient, change: Any, text: str, code: int, why: str
) -> None:
    before = settings_of(client)
    found = change(text)
    assert found[0] == code, found
    assert why in found[1]
    assert settings_of(client) == before, "all or none"


def test_settings_of_the_store_are_shown(client: RemotingClient, store: StoreProcess) -> None:
    found = settings_of(client)
    assert found["storePathRootDir"] == str(store.path)
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["brokerRole"] == "ASYNC_MASTER"


def test_the_cluster_and_the_broker_have_routes(client: RemotingClient) -> None:
    """By them RocketMQ's proxy finds the brokers on which it makes its topic."""
    for name, queues in (("DefaultCluster", 16), ("broker-a", 1)):
        route = ask(client, 105, topic=name)
        assert [one["brokerName"] for one in route["brokerDatas"]] == ["broker-a"]
        assert [one["writeQueueNums"] for one in route["queueDatas"]] == [queues]
        assert name in ask(client, 206)["topicList"], "name servers are told of it"


def test_what_clients_may_do_is_in_the_routes(client: RemotingClient, change: Any) -> None:
    def perm(topic: str) -> int:
        found: int = ask(client, 105, topic=topic)["queueDatas"][0]["perm"]
        return found

    make_topic(client, "routed")
    assert (perm("routed"), perm("TBW102")) == (6, 7)
    assert change("brokerPermission=4")[0] == 0
    assert (perm("routed"), perm("TBW102")) == (4, 4)
    assert change("brokerPermission=6")[0] == 0
    answer = client.ask(205, {"brokerName": "broker-a"})
    assert int(answer.fields["wipeTopicCount"]) > 0
    assert perm("routed") == 4
    assert client.ask(205, {"brokerName": "other"}).fields["wipeTopicCount"] == "0"
    assert client.ask(327, {"brokerName": "broker-a"}).code == 0
    assert perm("routed") == 6


def test_a_master_without_replicas(client: RemotingClient) -> None:
    found = ask(client, 907)
    assert found["master"]
    assert found["haConnectionInfo"] == []
    assert found["masterCommitLogMaxOffset"] > 0


def test_how_many_buffers_of_the_pool_are_free(tmp_path: Path) -> None:
    """Without a pool RocketMQ's greatest number: nobody is warned that there are none."""
    pool: dict[str, Any] = {
        "transient_store_pool_enable": "true",
        "transient_store_pool_size": 3,
    }
    for settings, free in ((pool, "2"), ({}, str(2**31 - 1))):
        base = {**SMALL, **settings, "store_port": free_port()}
        store = StoreProcess(tmp_path / f"store-{free}", base=base)
        with store, BrokerProcess(store.path) as broker, RemotingClient(broker.address) as client:
            assert ask(client, 28)["table"]["remainTransientStoreBufferNumbs"] == free
