"""The JSON of routes and lists of topics, written as RocketMQ's name server writes it.

The Go client takes `brokerAddrs` apart with string functions, so there must be no blanks. Clients
before 4.9.4 want the ids of brokers in it without quotes, which is not JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Queues(NamedTuple):
    """The queues of a topic at one broker."""

    read: int
    write: int
    perm: int
    sys_flag: int = 0


class BrokerData(msgspec.Struct):
    """The brokers of one name: the master and its replicas, by id."""

    cluster: str
    name: str
    addresses: dict[int, str] = {}
    acting_master: bool = False


class Bare(str):
    """Text that is written as it is."""

    __slots__ = ()


def route(
    brokers: Mapping[str, BrokerData],
    queues: Mapping[str, Queues],
    order: str | None,
    *,
    standard: bool,
) -> bytes:
    """A topic's route (TopicRouteData). `queues` are the topic's by the name of the broker, `order`
    is its orderTopicConf. `standard` writes the ids of brokers with quotes.
    """
    found: dict[str, Any] = {
        "brokerDatas": [_broker(brokers[name], standard=standard) for name in queues],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": name,
                "perm": one.perm,
                "readQueueNums": one.read,
                "topicSysFlag": one.sys_flag,
                "writeQueueNums": one.write,
            }
            for name, one in queues.items()
        ],
    }
    if order is not None:
        found["orderTopicConf"] = order
    return encode(found)


def cluster_info(brokers: Mapping[str, BrokerData], clusters: Mapping[str, list[str]]) -> bytes:
    """All brokers, and their names by cluster (ClusterInfo)."""
    found = {name: _broker(one, standard=False) for name, one in brokers.items()}
    return encode({"brokerAddrTable": found, "clusterAddrTable": dict(clusters)})


def member_group(broker: BrokerData) -> bytes:
    """The brokers of one name (BrokerMemberGroup)."""
    found = _broker(broker, standard=False)
    del found["enableActingMaster"]
    return encode({"brokerMemberGroup": found})


def topic_list(topics: Iterable[str], broker: str | None = None) -> bytes:
    """Names of topics, and the address of a broker that is to be asked for more (TopicList)."""
    first = {} if broker is None else {"brokerAddr": broker}
    return encode({**first, "topicList": list(topics)})


def table_of(values: Mapping[str, str]) -> bytes:
    """Key-value settings (KVTable)."""
    return encode({"table": dict(values)})


def queue_key(broker: str, topic: str, queue_id: int) -> Bare:
    """A queue as fastjson writes it in the place of a key: a whole object."""
    return Bare(_dump({"brokerName": broker, "queueId": queue_id, "topic": topic}))


def _broker(broker: BrokerData, *, standard: bool) -> dict[str, Any]:
    addresses = {
        str(number) if standard else Bare(number): address
        for number, address in sorted(broker.addresses.items())
    }
    return {
        "brokerAddrs": addresses,
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.acting_master,
    }


def encode(value: object) -> bytes:
    """JSON without blanks. A key that is Bare is written as it is."""
    return _dump(value).encode()


def _dump(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(name)}:{_dump(one)}" for name, one in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_dump, value))}]"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if isinstance(name, Bare) else json.dumps(name)
