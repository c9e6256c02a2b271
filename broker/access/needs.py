"""What each request needs: one table of all codes that a broker serves.

Source: RocketMQ's PlainAccessResource (4.9) and DefaultAuthorizationContextBuilder (5.3). Where
they differ the stricter one counts, but for CONSUMER_SEND_MSG_BACK: 4.9 demands PUB of a topic from
consumers that only read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from ...store.names import RETRY_PREFIX, retry_topic
from ..groups.heartbeats import ClientConfig, Subscription, decode, decode_heartbeat
from ..wire.codes import RequestCode
from .permissions import Need, Perm

Fields: TypeAlias = Mapping[str, str]
Rule: TypeAlias = Callable[[Fields, bytes], Iterator[Need]]


class _Read(msgspec.Struct, rename="camel"):
    """A body that names a group and a topic."""

    consumer_group: str
    topic: str


class _Acked(msgspec.Struct):
    """Messages of one topic."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")


class _Acks(msgspec.Struct):
    """A body of acknowledgements."""

    acks: list[_Acked] = msgspec.field(default_factory=list)


class _OfGroup(msgspec.Struct, rename="camel"):
    """A body that names a group."""

    consumer_group: str


def _group(name: str) -> Need:
    return Need(retry_topic(name), Perm.SUB)


def _writes(topic: str) -> Iterator[Need]:
    """A consumer that sends to its group's retry topic by itself consumes."""
    needed = Perm.SUB if topic.startswith(RETRY_PREFIX) else Perm.PUB
    yield Need(topic, needed)


def _send(fields: Fields, _: bytes) -> Iterator[Need]:
    return _writes(fields.get("topic", ""))


def _send_short(fields: Fields, _: bytes) -> Iterator[Need]:
    return _writes(fields.get("b", ""))


def _read(fields: Fields, _: bytes) -> Iterator[Need]:
    yield Need(fields.get("topic", ""), Perm.SUB)


def _config_of_topic(fields: Fields, _: bytes) -> Iterator[Need]:
    """Whoever may use a topic may know how it is made: RocketMQ's proxy asks this for clients."""
    yield Need(fields.get("topic", ""), Perm.PUB | Perm.SUB, either=True)


def _config_of_group(fields: Fields, _: bytes) -> Iterator[Need]:
    yield _group(fields.get("group", ""))


def _consume(fields: Fields, _: bytes) -> Iterator[Need]:
    yield Need(fields.get("topic", ""), Perm.SUB)
    yield _group(fields.get("consumerGroup", ""))


def _popped(fields: Fields, _: bytes) -> Iterator[Need]:
    return _of_lease(fields.get("consumerGroup", ""), fields.get("topic", ""))


def _of_lease(group: str, topic: str) -> Iterator[Need]:
    """The topic of a lease may be a retry topic for popping, which is the group's own."""
    if not topic.startswith((f"{retry_topic(group)}_", f"{retry_topic(group)}+")):
        yield Need(topic, Perm.SUB)
    yield _group(group)


def _member(fields: Fields, _: bytes) -> Iterator[Need]:
    yield _group(fields.get("consumerGroup", ""))


def _assigned(_: Fields, body: bytes) -> Iterator[Need]:
    found: _Read = decode(_Read, body)
    yield Need(found.topic, Perm.SUB)
    yield _group(found.consumer_group)


def _acked(_: Fields, body: bytes) -> Iterator[Need]:
    found: _Acks = decode(_Acks, body) if body else _Acks()
    for topic, group in {(one.topic, one.group) for one in found.acks}:
        yield from _of_lease(group, topic)


def _leave(fields: Fields, _: bytes) -> Iterator[Need]:
    if fields.get("consumerGroup"):
        yield _group(fields["consumerGroup"])


def _send_back(fields: Fields, _: bytes) -> Iterator[Need]:
    """The message's topic is known when it has been read: `Grant.demand`."""
    yield _group(fields.get("group", ""))


def _lock(_: Fields, body: bytes) -> Iterator[Need]:
    yield _group(decode(_OfGroup, body).consumer_group)


def _subscribed(group: str, subscriptions: list[Subscription]) -> Iterator[Need]:
    yield _group(group)
    for subscription in subscriptions:
        yield Need(subscription.topic, Perm.SUB)


def _beat(_: Fields, body: bytes) -> Iterator[Need]:
    for consumer in decode_heartbeat(body).consumers:
        yield from _subscribed(consumer.group_name, consumer.subscription_data_set)


def _check_config(_: Fields, body: bytes) -> Iterator[Need]:
    config: ClientConfig = decode(ClientConfig, body)
    return _subscribed(config.group, [config.subscription_data])


def _account(_: Fields, __: bytes) -> Iterator[Need]:
    """Any account; also one that may read no topic finds the broker."""
    return iter(())


#: What only an administrator may ask for.
_ADMINISTRATION: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.QUERY_TOPICS_BY_CONSUMER,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.QUERY_CORRECTION_OFFSET,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.VIEW_BROKER_STATS_DATA,
    RequestCode.QUERY_CONSUME_QUEUE,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_BROKER_HA_STATUS,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_GET_USER,
    RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
    RequestCode.AUTH_GET_ACL,
    RequestCode.AUTH_LIST_ACL,
)

#: The rule of each code; None needs an administrator.
NEEDS: Final[Mapping[int, Rule | None]] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send_short,
    RequestCode.SEND_BATCH_MESSAGE: _send_short,
    RequestCode.SEND_REPLY_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE_V2: _send_short,
    RequestCode.RECALL_MESSAGE: _send,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.END_TRANSACTION: _account,  # the half's topic: `Grant.demand`
    RequestCode.PULL_MESSAGE: _consume,
    RequestCode.LITE_PULL_MESSAGE: _consume,
    RequestCode.QUERY_CONSUMER_OFFSET: _consume,
    RequestCode.UPDATE_CONSUMER_OFFSET: _consume,
    RequestCode.POP_MESSAGE: _consume,
    RequestCode.PEEK_MESSAGE: _consume,
    RequestCode.ACK_MESSAGE: _popped,
    RequestCode.BATCH_ACK_MESSAGE: _acked,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _popped,
    RequestCode.NOTIFICATION: _consume,
    RequestCode.POLLING_INFO: _consume,
    RequestCode.QUERY_ASSIGNMENT: _assigned,
    RequestCode.QUERY_MESSAGE: _read,
    RequestCode.VIEW_MESSAGE_BY_ID: _account,  # the message's topic: `Grant.demand`
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _read,
    RequestCode.GET_MAX_OFFSET: _read,
    RequestCode.GET_MIN_OFFSET: _read,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _read,
    RequestCode.HEART_BEAT: _beat,
    RequestCode.CHECK_CLIENT_CONFIG: _check_config,
    RequestCode.UNREGISTER_CLIENT: _leave,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _member,
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _lock,
    RequestCode.GET_TOPIC_CONFIG: _config_of_topic,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _config_of_group,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _account,
    RequestCode.GET_BROKER_CLUSTER_INFO: _account,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _account,
    RequestCode.GET_TOPICS_BY_CLUSTER: _account,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _account,
    RequestCode.GET_UNIT_TOPIC_LIST: _account,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _account,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _account,
    RequestCode.GET_KV_CONFIG: _account,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _account,
    **dict.fromkeys(_ADMINISTRATION),
}


def needs_of(code: int, fields: Fields, body: bytes) -> list[Need] | None:
    """The permissions that a request needs, None for an administrator's. Raises BadBody."""
    rule = NEEDS.get(code)
    return None if rule is None else list(rule(fields, body))
