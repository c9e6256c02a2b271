"""`NamesProcessor`: what a name server answers to each request."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..broker.wire import route_data
from ..broker.wire.codes import QUOTED_KEYS_VERSION, RequestCode, ResponseCode
from ..broker.wire.command import Command
from ..broker.wire.headers import BadHeader, parse, texts
from ..broker.wire.properties import encode_properties, parse_properties
from ..store.errors import StoreError
from .configuration import BLACK_LIST, Configuration
from .kv_config import ORDERED_TOPICS, KvConfig
from .registration import BadBody, DataVersion, decode_topics, decode_version
from .routes import EXPIRY_S, UNIT, UNIT_SUBSCRIPTION, Refused, Registrant, RouteTable


class _Key(msgspec.Struct):
    namespace: str
    key: str


class _KeyAndValue(_Key):
    value: str


class _Namespace(msgspec.Struct):
    namespace: str


class _BrokerId(msgspec.Struct, rename="camel"):
    cluster_name: str
    broker_name: str
    broker_addr: str
    broker_id: int = 0


class _Registration(_BrokerId, rename="camel"):
    ha_server_addr: str = ""
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = 0


class _MasterOf(msgspec.Struct, rename="camel"):
    ha_server_addr: str
    master_addr: str


class _Changed(msgspec.Struct):
    changed: bool


class _Beat(msgspec.Struct, rename="camel"):
    broker_addr: str


class _BrokerName(msgspec.Struct, rename="camel"):
    broker_name: str


class _Group(_BrokerName, rename="camel"):
    cluster_name: str


class _Cluster(msgspec.Struct):
    cluster: str


class _Topic(msgspec.Struct, rename="camel"):
    topic: str
    cluster_name: str | None = None
    accept_standard_json_only: bool = False


class NamesProcessor:
    """Answers the requests of brokers, clients and tools. `connection` is any object that stands
    for the connection by which a request came.
    """

    def __init__(self, table: RouteTable, settings: KvConfig, *, ordered_topics: bool) -> None:
        self._table = table
        self._settings = settings
        self._configuration = Configuration(ordered_topics=ordered_topics)
        self._handlers: dict[int, Callable[[Command, object], Command]] = {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._list,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_subscribed,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._others_subscribed,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._change,
            RequestCode.GET_NAMESRV_CONFIG: self._show,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.BROKER_HEARTBEAT: self._beat,
        }

    def process(self, request: Command, connection: object) -> Command:
        """The answer. Every error of the request becomes an answer, too."""
        handler = self._handlers.get(request.code)
        if handler is None:
            return request.answer(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f" request type {request.code} not supported",
            )
        try:
            return handler(request, connection)
        except (BadHeader, BadBody, Refused, StoreError) as error:
            return request.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except OSError as error:
            why = f"cannot keep it: {error.strerror} ({error.filename})"
            return request.answer(ResponseCode.SYSTEM_ERROR, remark=why)

    # -- brokers

    def _register(self, request: Command, connection: object) -> Command:
        header = parse(_Registration, request.fields)
        who = Registrant(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            header.ha_server_addr,
            header.enable_acting_master,
        )
        topics = decode_topics(
            request.body,
            compressed=header.compressed,
            version=request.version,
            crc=header.body_crc32,
        )
        patience_ms = header.heartbeat_timeout_millis
        timeout_s = EXPIRY_S if patience_ms is None else patience_ms / 1000
        master = self._table.register(who, topics, connection, timeout_s)
        fields = {} if master is None else texts(_MasterOf(master.ha_address, master.address))
        ordered = route_data.table_of(self._settings.all_of(ORDERED_TOPICS))
        return request.answer(fields=fields, body=ordered)

    def _unregister(self, request: Command, _: object) -> Command:
        self._table.unregister(parse(_BrokerId, request.fields).broker_addr)
        return request.answer()

    def _query_data_version(self, request: Command, _: object) -> Command:
        address = parse(_BrokerId, request.fields).broker_addr
        known, asked = self._table.beat(address), decode_version(request.body)
        body = b"" if known is None else _version(known)
        return request.answer(fields=texts(_Changed(known != asked)), body=body)

    def _beat(self, request: Command, _: object) -> Command:
        self._table.beat(parse(_Beat, request.fields).broker_addr)
        return request.answer()

    # -- clients

    def _route(self, request: Command, _: object) -> Command:
        header = parse(_Topic, request.fields)
        standard = request.version >= QUOTED_KEYS_VERSION or header.accept_standard_json_only
        named = self._configuration.ordered_topics
        order = self._settings.get(ORDERED_TOPICS, header.topic) if named else None
        queues = self._table.queues(header.topic)
        if not queues:
            why = f"No topic route info in name server for the topic: {header.topic}"
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, remark=why)
        body = route_data.route(self._table.brokers, queues, order, standard=standard)
        return request.answer(body=body)

    # -- tools

    def _cluster_info(self, request: Command, _: object) -> Command:
        return request.answer(
            body=route_data.cluster_info(self._table.brokers, self._table.clusters())
        )

    def _member_group(self, request: Command, _: object) -> Command:
        header = parse(_Group, request.fields)
        broker = self._table.brokers.get(header.broker_name)
        if broker is None or broker.cluster != header.cluster_name:
            why = f"no broker {header.broker_name} of cluster {header.cluster_name} is registered"
            return request.answer(ResponseCode.SYSTEM_ERROR, remark=why)
        return request.answer(body=route_data.member_group(broker))

    def _topics(self, request: Command, _: object) -> Command:
        return request.answer(body=route_data.topic_list(self._table.topics))

    def _topics_by_cluster(self, request: Command, _: object) -> Command:
        cluster = parse(_Cluster, request.fields).cluster
        return request.answer(body=route_data.topic_list(self._table.topics_of(cluster)))

    def _system_topics(self, request: Command, _: object) -> Command:
        brokers = self._table.brokers
        names = [*self._table.clusters(), *brokers]
        addresses = [at for one in brokers.values() for at in one.addresses.values()]
        first = addresses[0] if addresses else None
        return request.answer(body=route_data.topic_list(names, first))

    def _unit_topics(self, request: Command, _: object) -> Command:
        return request.answer(body=route_data.topic_list(self._table.topics_with(UNIT)))

    def _unit_subscribed(self, request: Command, _: object) -> Command:
        return request.answer(
            body=route_data.topic_list(self._table.topics_with(UNIT_SUBSCRIPTION))
        )

    def _others_subscribed(self, request: Command, _: object) -> Command:
        found = self._table.topics_with(UNIT_SUBSCRIPTION, without=UNIT)
        return request.answer(body=route_data.topic_list(found))

    def _delete_topic(self, request: Command, _: object) -> Command:
        header = parse(_Topic, request.fields)
        self._table.delete_topic(header.topic, header.cluster_name)
        return request.answer()

    def _wipe_write(self, request: Command, _: object) -> Command:
        name = parse(_BrokerName, request.fields).broker_name
        count = self._table.set_writable(name, writable=False)
        return request.answer(fields={"wipeTopicCount": str(count)})

    def _add_write(self, request: Command, _: object) -> Command:
        name = parse(_BrokerName, request.fields).broker_name
        count = self._table.set_writable(name, writable=True)
        return request.answer(fields={"addTopicCount": str(count)})

    # -- configuration

    def _show(self, request: Command, _: object) -> Command:
        return request.answer(body=encode_properties(self._configuration.settings()))

    def _change(self, request: Command, _: object) -> Command:
        wanted = parse_properties(request.body)
        if BLACK_LIST & wanted.keys():
            why = "Can not update config in black list."
            return request.answer(ResponseCode.NO_PERMISSION, remark=why)
        self._configuration.change(wanted)
        return request.answer()

    # -- key-value settings

    def _put(self, request: Command, _: object) -> Command:
        header = parse(_KeyAndValue, request.fields)
        self._settings.put(header.namespace, header.key, header.value)
        return request.answer()

    def _get(self, request: Command, _: object) -> Command:
        header = parse(_Key, request.fields)
        value = self._settings.get(header.namespace, header.key)
        if value is None:
            why = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, remark=why)
        return request.answer(fields={"value": value})

    def _delete(self, request: Command, _: object) -> Command:
        header = parse(_Key, request.fields)
        self._settings.delete(header.namespace, header.key)
        return request.answer()

    def _list(self, request: Command, _: object) -> Command:
        namespace = parse(_Namespace, request.fields).namespace
        found = self._settings.all_of(namespace)
        if not found:
            why = f"No config item, Namespace: {namespace}"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, remark=why)
        return request.answer(body=route_data.table_of(found))


def _version(version: DataVersion) -> bytes:
    return msgspec.json.encode(version)
