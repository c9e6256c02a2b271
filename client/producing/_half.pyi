from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

from ..arguments import Own
from ._message import Message
from ._sender import Sender
from .send_result import SendResult

def send_half(
    sender: Sender,
    topic: str,
    body: Buffer | str | Message,
    *,
    group: str,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    flag: int = 0,
    queue: int | None = None,
    shard_key: str | None = None,
    born_timestamp: int | None = None,
    immunity_s: int = 0,
    timeout: float | Own | None = ...,
) -> SendResult: ...
