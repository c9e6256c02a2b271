"""The JSON of routes, as RocketMQ writes it: byte for byte, because clients take it apart."""

from __future__ import annotations

import json

from silomq.broker.wire import route_data
from silomq.broker.wire.route_data import BrokerData, Queues

BROKERS = {"b": BrokerData("c", "b", {0: "h:1", 1: "h:2"})}
_DATA = '"brokerName":"b","cluster":"c","enableActingMaster":false}'
_QUEUES = '{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":3}'


def test_a_route() -> None:
    found = route_data.route(BROKERS, {"b": Queues(4, 3, 6)}, None, standard=False)
    assert found.decode() == (
        f'{{"brokerDatas":[{{"brokerAddrs":{{0:"h:1",1:"h:2"}},{_DATA}],'
        f'"filterServerTable":{{}},"queueDatas":[{_QUEUES}]}}'
    )
    standard = route_data.route(BROKERS, {"b": Queues(4, 3, 6)}, "b:4", standard=True)
    read = json.loads(standard)
    assert read["brokerDatas"][0]["brokerAddrs"] == {"0": "h:1", "1": "h:2"}
    assert read["orderTopicConf"] == "b:4"


def test_a_route_without_queues() -> None:
    assert json.loads(route_data.route(BROKERS, {}, None, standard=True))["brokerDatas"] == []


def test_names_that_need_quotes() -> None:
    hostile = 'a"b\\\n\u2028'
    assert json.loads(route_data.topic_list([hostile]))["topicList"] == [hostile]
    assert json.loads(route_data.table_of({hostile: hostile}))["table"] == {hostile: hostile}
    key = route_data.queue_key("b", hostile, 1)
    assert json.loads(key) == {"brokerName": "b", "queueId": 1, "topic": hostile}
    assert route_data.encode({key: 5}).startswith(b'{{"brokerName":"b"')


def test_clusters_and_members() -> None:
    found = route_data.cluster_info(BROKERS, {"c": ["b"]})
    assert found.endswith(b'"clusterAddrTable":{"c":["b"]}}')
    assert b'{0:"h:1",1:"h:2"}' in found
    assert b"enableActingMaster" not in route_data.member_group(BROKERS["b"])
    assert route_data.topic_list(["t"], "h:1") == b'{"brokerAddr":"h:1","topicList":["t"]}'
