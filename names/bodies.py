"""The JSON of a name server's answers, written as RocketMQ's name server writes it.

The Go client takes `brokerAddrs` apart with string functions, so there must be no blanks. Clients
before 4.9.4 want the ids of brokers in it without quotes, which is not JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .routes import Broker, RouteTable


class _Bare(str):
    """Text that is written as it is."""

    __slots__ = ()


def route(table: RouteTable, topic: str, order: str | None, *, standard: bool) -> bytes | None:
    """A topic's route (TopicRouteData), None if no broker has the topic. `order` is its
    orderTopicConf. `standard` writes the ids of brokers with quotes.
    """
    queues = table.queues(topic)
    if not queues:
        return None
    found: dict[str, Any] = {
        "brokerDatas": [_broker(table.brokers[name], standard=standard) for name in queues],
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
    return _encode(found)


def cluster_info(table: RouteTable) -> bytes:
    """All brokers and clusters (ClusterInfo)."""
    brokers = {name: _broker(one, standard=False) for name, one in table.brokers.items()}
    return _encode({"brokerAddrTable": brokers, "clusterAddrTable": table.clusters()})


def member_group(broker: Broker) -> bytes:
    """The brokers of one name (BrokerMemberGroup)."""
    found = _broker(broker, standard=False)
    del found["enableActingMaster"]
    return _encode({"brokerMemberGroup": found})


def topic_list(topics: Iterable[str], broker: str | None = None) -> bytes:
    """Names of topics, and the address of a broker that is to be asked for more (TopicList)."""
    first = {} if broker is None else {"brokerAddr": broker}
    return _encode({**first, "topicList": list(topics)})


def table_of(values: dict[str, str]) -> bytes:
    """Key-value settings (KVTable)."""
    return _encode({"table": values})


def _broker(broker: Broker, *, standard: bool) -> dict[str, Any]:
    addresses = {
        str(number) if standard else _Bare(number): address
        for number, address in sorted(broker.addresses.items())
    }
    return {
        "brokerAddrs": addresses,
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.acting_master,
    }


def _encode(value: object) -> bytes:
    return _dump(value).encode()


def _dump(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(name)}:{_dump(one)}" for name, one in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_dump, value))}]"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if isinstance(name, _Bare) else json.dumps(name)
