"""A workload of OpenMessaging Benchmark, read as it is (its `Workload` class: the keys below).

`producerRate` is that of all producers; 0 stands for the maximum. `payloadFile` is replaced by
random bytes of the same size: the file is not part of the workload's. A backlog
(`consumerBacklogSizeGB`) is sent first, then read (`consumers.after`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str = ""
    topics: _Count = 1
    partitions_per_topic: _Count = 1
    key_distributor: Literal["NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO"] = "NO_KEY"
    message_size: Annotated[int, Meta(ge=1, le=1 << 30)] = 1024
    payload_file: str | None = None
    use_randomized_payloads: bool = False
    random_bytes_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.0
    randomized_payload_pool_size: _Count = 0
    subscriptions_per_topic: _Count = 1
    consumer_per_subscription: _Count = 1
    producers_per_topic: _Count = 1
    producer_rate: Annotated[float, Meta(ge=0)] = 0.0
    consumer_backlog_size_gb: Annotated[float, Meta(ge=0)] = msgspec.field(
        default=0.0, name="consumerBacklogSizeGB"
    )
    backlog_drain_ratio: float = 1.0
    test_duration_minutes: Annotated[float, Meta(gt=0)] = 15.0
    warmup_duration_minutes: Annotated[float, Meta(ge=0)] = 1.0


#: Keys of a message that "KEY_ROUND_ROBIN" and "RANDOM_NANO" take in turn.
_KEYS = 10_000


def tables(text: str) -> dict[str, Any]:
    """The tables of a workload, to be checked as those of a TOML file. Raises ValueError."""
    try:
        raw = yaml.safe_load(text)
        found = msgspec.convert(raw, _File, strict=False)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise ValueError(f"no workload of OpenMessaging Benchmark: {error}") from None
    backlog = int(found.consumer_backlog_size_gb * (1 << 30) / found.message_size)
    random = found.random_bytes_ratio if found.use_randomized_payloads else 1.0
    return {
        "description": found.name,
        "duration": found.test_duration_minutes * 60,
        "warm_up": found.warmup_duration_minutes * 60,
        "topics": {"count": found.topics, "queues": found.partitions_per_topic},
        "producers": {
            "processes": found.topics * found.producers_per_topic,
            "call": "async",
            "rate": found.producer_rate or "max",
            "size": max(16, found.message_size),
            "payload": {"compressible": 1.0 - random},
            "keys": 0 if found.key_distributor == "NO_KEY" else _KEYS,
            "messages": backlog,
        },
        "consumers": {
            "groups": found.subscriptions_per_topic,
            "processes": found.topics * found.consumer_per_subscription,
            "after": backlog > 0,
        },
    }
