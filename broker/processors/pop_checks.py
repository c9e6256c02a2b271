"""What is checked before a group pops a queue, in RocketMQ's order."""

from __future__ import annotations

from typing import Final

from ...conf.broker_settings import BrokerSettings
from ...store.filters.tags import FilterError, MessageFilter
from ...store.groups.leases import LEASE_MOST
from ..groups.heartbeats import TAG
from ..wire.codes import ResponseCode
from .calls import Refused
from .parts import Parts
from .pull import compiled

_PERM_READ: Final = 4


async def check_pop(parts: Parts, group: str, topic: str, queue_id: int, most: int) -> None:
    """Raises Refused for a queue that is not there, and for a group that may not consume."""
    if not 1 <= most <= LEASE_MOST:
        why = f"the request's maxMsgNums is {most}: 1 to {LEASE_MOST}"
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    found = parts.link.find(topic)
    if found is None:
        why = f"topic[{topic}] not exist, apply first please!"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
    if not found.perm & _PERM_READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic [{topic}] popping is forbidden")
    if not -1 <= queue_id < found.read_queue_nums:
        why = f"queueId[{queue_id}] is illegal, topic:[{topic}] has {found.read_queue_nums} queues"
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    settings = await parts.topics.group(group, make=parts.settings.auto_create_subscription_group)
    if not settings.known:
        why = f"subscription group [{group}] does not exist"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
    if not settings.consume_enable:
        why = f"subscription group no permission, {group}"
        raise Refused(ResponseCode.NO_PERMISSION, why)


def pop_filter(
    settings: BrokerSettings, kind: str | None, expression: str | None
) -> MessageFilter | None:
    """The filter of a pop, None for one that takes everything. Raises Refused."""
    kind = kind or TAG
    if not expression:
        return None
    if kind != TAG and not settings.enable_property_filter:
        why = f"The broker does not support consumer to filter message by {kind}"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)
    try:
        return compiled(kind, expression)
    except FilterError as error:
        why = f"parse the consumer's subscription failed: {error}"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why) from error
