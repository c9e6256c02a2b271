"""Numbers of RocketMQ's remoting protocol: requests, answers, languages and versions.

Source: RocketMQ's `RequestCode`, `ResponseCode`, `LanguageCode` and `MQVersion`.
"""

from __future__ import annotations

import enum
from typing import Final


class RequestCode(enum.IntEnum):
    """What a request asks for. The name server's."""

    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904


class ResponseCode(enum.IntEnum):
    """What came of a request."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    REQUEST_CODE_NOT_SUPPORTED = 3
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22


#: The names of languages, by their number in a header of the form ROCKETMQ.
LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP"),
    *("OMS", "RUST", "NODE_JS"),
)
#: What we announce: RocketMQ 5.3.3, and its language, because some clients know no other server.
OUR_VERSION: Final = 479
OUR_LANGUAGE: Final = "JAVA"
#: From 4.9.4 on clients read maps whose integer keys have quotes.
QUOTED_KEYS_VERSION: Final = 401
#: From 5.0.0 on a compressed registration has one more section.
MAPPINGS_VERSION: Final = 413
