"""SiloMQ: Apache RocketMQ's message store as a group of processes over shared memory.

`silo serve` runs a store. A process on the same machine sends with `Producer`, reads with
`Consumer` or `GroupConsumer`, looks messages up with `StoreReader`, and manages topics and groups
with `Admin`. All of them take the store's folder.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client.admin.admin import Admin
    from .client.admin.group_admin import GroupInfo, GroupState, MemberInfo, QueueProgress
    from .client.admin.topic_info import TopicInfo
    from .client.consuming.consumer import Consumer
    from .client.consuming.message_view import MessageView
    from .client.errors import (
        ForkedChild,
        NotHandedOut,
        RequestTimeout,
        SendTimeout,
        SessionLost,
        StoreClosed,
        TopicDeleted,
    )
    from .client.groups.group_consumer import GroupConsumer
    from .client.groups.listener import Listener
    from .client.groups.subscription import Sql
    from .client.lookup.get_message_result import GetMessageResult
    from .client.lookup.store_reader import MessageFilter, StoreReader
    from .client.producing._future import SendFuture
    from .client.producing._message import Message
    from .client.producing.producer import Producer
    from .client.producing.send_result import SendResult
    from .client.requests.reply_future import ReplyFuture
    from .client.requests.request_producer import RequestProducer
    from .client.transactions.checks import CheckedMessage
    from .client.transactions.transaction import Transaction
    from .client.transactions.transaction_producer import TransactionProducer
    from .store.errors import (
        BadBody,
        Corrupt,
        CorruptRange,
        IllegalArgument,
        IllegalMessage,
        IllegalQuery,
        IllegalType,
        IllegalUse,
        MessageNotFound,
        StoreError,
        TooManyOpenFiles,
        UnsupportedFeature,
    )
    from .store.filters.sql_tokens import FilterError
    from .store.reading.columns import ColumnName
    from .store.retention.topic_limits import TopicLimits
    from .store.status import GetMessageStatus, PutMessageStatus

__all__ = [
    "Admin",
    "BadBody",
    "CheckedMessage",
    "ColumnName",
    "Consumer",
    "Corrupt",
    "CorruptRange",
    "FilterError",
    "ForkedChild",
    "GetMessageResult",
    "GetMessageStatus",
    "GroupConsumer",
    "GroupInfo",
    "GroupState",
    "IllegalArgument",
    "IllegalMessage",
    "IllegalQuery",
    "IllegalType",
    "IllegalUse",
    "Listener",
    "MemberInfo",
    "Message",
    "MessageFilter",
    "MessageNotFound",
    "MessageView",
    "NotHandedOut",
    "Producer",
    "PutMessageStatus",
    "QueueProgress",
    "ReplyFuture",
    "RequestProducer",
    "RequestTimeout",
    "SendFuture",
    "SendResult",
    "SendTimeout",
    "SessionLost",
    "Sql",
    "StoreClosed",
    "StoreError",
    "StoreReader",
    "TooManyOpenFiles",
    "TopicDeleted",
    "TopicInfo",
    "TopicLimits",
    "Transaction",
    "TransactionProducer",
    "UnsupportedFeature",
]
__version__ = "0.1.0"

# Public names are loaded when they are first used: the store's own processes start without clients.
_PLACES = {
    ".client.producing._future": "SendFuture",
    ".client.producing._message": "Message",
    ".client.admin.admin": "Admin",
    ".client.admin.topic_info": "TopicInfo",
    ".client.consuming.consumer": "Consumer",
    ".client.errors": (
        "ForkedChild NotHandedOut RequestTimeout SendTimeout SessionLost StoreClosed TopicDeleted"
    ),
    ".client.groups.group_consumer": "GroupConsumer",
    ".client.admin.group_admin": "GroupInfo GroupState MemberInfo QueueProgress",
    ".client.groups.listener": "Listener",
    ".client.producing.producer": "Producer",
    ".client.lookup.get_message_result": "GetMessageResult",
    ".client.lookup.store_reader": "MessageFilter StoreReader",
    ".client.consuming.message_view": "MessageView",
    ".client.producing.send_result": "SendResult",
    ".client.groups.subscription": "Sql",
    ".client.requests.reply_future": "ReplyFuture",
    ".client.requests.request_producer": "RequestProducer",
    ".client.transactions.checks": "CheckedMessage",
    ".client.transactions.transaction": "Transaction",
    ".client.transactions.transaction_producer": "TransactionProducer",
    ".store.errors": (
        "BadBody Corrupt CorruptRange IllegalArgument IllegalMessage IllegalQuery IllegalType "
        "IllegalUse MessageNotFound StoreError TooManyOpenFiles UnsupportedFeature"
    ),
    ".store.filters.sql_tokens": "FilterError",
    ".store.reading.columns": "ColumnName",
    ".store.retention.topic_limits": "TopicLimits",
    ".store.status": "GetMessageStatus PutMessageStatus",
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Loads a public name from its module. Raises AttributeError for an unknown name."""
        if name not in _PLACE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(_PLACE_OF[name], __name__), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
