"""Settings as RocketMQ writes them."""

from __future__ import annotations

from silomq.conf import broker_settings, schema
from silomq.conf.rocketmq_names import rocketmq_texts
from silomq.conf.settings import Settings


def test_a_store() -> None:
    found = rocketmq_texts(schema.kinds(), Settings())
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["mappedFileSizeCommitLog"] == str(1 << 30)
    assert found["messageDelayLevel"].startswith("1s 5s 10s 30s 1m")
    assert found["messageIndexEnable"] == "true"
    assert found["ring_size"] == str(16 << 20), "RocketMQ has no name for it"


def test_a_broker() -> None:
    found = rocketmq_texts(broker_settings.kinds(), broker_settings.BrokerSettings())
    assert found["brokerName"] == "broker-a"
    assert found["brokerPermission"] == "6"
    assert found["tls.server.mode"] == "permissive"
