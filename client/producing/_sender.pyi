from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from typing_extensions import Buffer

from ..arguments import Own
from ._future import SendFuture
from ._message import Message
from .message_properties import Delayed
from .send_result import SendResult
from .send_session import SendSession

Body: TypeAlias = Buffer | str
Keys: TypeAlias = str | Iterable[str] | None

class Sender:
    def __init__(self, session: SendSession) -> None: ...
    def send(
        self,
        topic: str,
        body: Body | Message,
        *,
        tags: str | None = None,
        keys: Keys = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
        wait_store: bool = True,
        timeout: float | Own | None = ...,
        delay_level: int = 0,
        deliver_at: int | None = None,
        delay_ms: int | None = None,
    ) -> SendResult: ...
    def send_async(
        self,
        topic: str,
        body: Body | Message,
        *,
        tags: str | None = None,
        keys: Keys = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
        wait_store: bool = True,
        callback: Callable[[SendFuture], object] | None = None,
        timeout: float | Own | None = ...,
        delay_level: int = 0,
        deliver_at: int | None = None,
        delay_ms: int | None = None,
    ) -> SendFuture: ...
    def send_oneway(
        self,
        topic: str,
        body: Body | Message,
        *,
        tags: str | None = None,
        keys: Keys = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
        timeout: float | Own | None = ...,
        delay_level: int = 0,
        deliver_at: int | None = None,
        delay_ms: int | None = None,
    ) -> None: ...
    def send_batch(
        self,
        topic: str,
        messages: Iterable[Body | Message],
        *,
        queue: int | None = None,
        shard_key: str | None = None,
        timeout: float | Own | None = ...,
    ) -> SendResult: ...
    def send_batch_async(
        self,
        topic: str,
        messages: Iterable[Body | Message],
        *,
        queue: int | None = None,
        shard_key: str | None = None,
        callback: Callable[[SendFuture], object] | None = None,
        timeout: float | Own | None = ...,
    ) -> SendFuture: ...
    def send_batch_oneway(
        self,
        topic: str,
        messages: Iterable[Body | Message],
        *,
        queue: int | None = None,
        shard_key: str | None = None,
        timeout: float | Own | None = ...,
    ) -> None: ...

def session_of(sender: Sender) -> SendSession: ...
def send_encoded(
    sender: Sender,
    topic: str | Delayed,
    queue_id: int,
    record: bytes,
    *,
    unique_key: str | None = None,
    wait_store: bool = True,
    timeout: float | Own | None = ...,
) -> SendResult: ...
