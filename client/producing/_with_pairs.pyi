from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

from ..arguments import Own
from ._future import SendFuture
from ._message import Message
from ._sender import Sender
from .message_properties import Delayed

def send_with_pairs(
    sender: Sender,
    topic: str | Delayed,
    body: Buffer | str | Message,
    pairs: bytes,
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    flag: int = 0,
    queue: int | None = None,
    shard_key: str | None = None,
    born_timestamp: int | None = None,
    timeout: float | Own | None = ...,
) -> SendFuture: ...
