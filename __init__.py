"""SiloMQ: Apache RocketMQ's message store as a family of processes over shared memory.

A store runs by `silo serve`. A process on the same machine sends with `Producer`, reads with
`Consumer`, and looks around with `Admin`; all three take the store's folder.
"""

from .client._future import SendFuture
from .client._message import Message
from .client.admin import Admin, TopicInfo
from .client.consumer import Consumer
from .client.errors import SendTimeout, SessionLost, StoreClosed
from .client.producer import Producer
from .client.received import MessageView
from .client.result import SendResult
from .store.errors import Corrupt, CorruptRange, IllegalMessage, StoreError
from .store.status import PutMessageStatus

__all__ = [
    "Admin",
    "Consumer",
    "Corrupt",
    "CorruptRange",
    "IllegalMessage",
    "Message",
    "MessageView",
    "Producer",
    "PutMessageStatus",
    "SendFuture",
    "SendResult",
    "SendTimeout",
    "SessionLost",
    "StoreClosed",
    "StoreError",
    "TopicInfo",
]
__version__ = "0.1.0"
