"""SiloMQ: Apache RocketMQ's message store as a family of processes over shared memory.

A store runs by `silo serve`. A process on the same machine sends with `Producer`, reads with
`Consumer`, looks things up with `StoreReader`, and looks around with `Admin`; all take the store's
folder.
"""

from .client._future import SendFuture
from .client._message import Message
from .client.admin import Admin, TopicInfo
from .client.consumer import Consumer
from .client.errors import SendTimeout, SessionLost, StoreClosed, TopicDeleted
from .client.group import GroupConsumer
from .client.group_admin import GroupInfo, GroupState, MemberInfo, QueueProgress
from .client.listening import Listener
from .client.producer import Producer
from .client.reader import GetMessageResult, MessageFilter, StoreReader
from .client.received import MessageView
from .client.result import SendResult
from .client.subscription import Sql
from .store.errors import (
    Corrupt,
    CorruptRange,
    IllegalMessage,
    IllegalQuery,
    MessageNotFound,
    StoreError,
)
from .store.status import GetMessageStatus, PutMessageStatus

__all__ = [
    "Admin",
    "Consumer",
    "Corrupt",
    "CorruptRange",
    "GetMessageResult",
    "GetMessageStatus",
    "GroupConsumer",
    "GroupInfo",
    "GroupState",
    "IllegalMessage",
    "IllegalQuery",
    "Listener",
    "MemberInfo",
    "Message",
    "MessageFilter",
    "MessageNotFound",
    "MessageView",
    "Producer",
    "PutMessageStatus",
    "QueueProgress",
    "SendFuture",
    "SendResult",
    "SendTimeout",
    "SessionLost",
    "Sql",
    "StoreClosed",
    "StoreError",
    "StoreReader",
    "TopicDeleted",
    "TopicInfo",
]
__version__ = "0.1.0"
