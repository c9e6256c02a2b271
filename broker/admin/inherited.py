"""The topic from which producers' new topics are made. The store does not have it; RocketMQ's
brokers do, so tools ask for it.
"""

from __future__ import annotations

from typing import Final

from ...conf.broker_settings import BrokerSettings
from ...shm.protocol.answers import TopicEntry
from ...store.names import AUTO_CREATE_TOPIC

#: Read, write, and inherit.
_PERM: Final = 7


def inherited(settings: BrokerSettings) -> TopicEntry | None:
    """The topic, if the settings let producers make topics."""
    if not settings.auto_create_topic_enable:
        return None
    queues = settings.default_topic_queue_nums
    return TopicEntry(
        topic=AUTO_CREATE_TOPIC,
        index=-1,
        perm=_PERM,
        write_queues=queues,
        read_queues=queues,
        order=False,
        filter_type="SINGLE_TAG",
        sys_flag=0,
        attributes={},
    )
