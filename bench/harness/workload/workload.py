"""`Workload`: every key of a workload's file, with its type and its bounds.

Each table of the file is a struct here; a key that a file leaves out has the value below. What
belongs together is checked together: a struct that exists can be run.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..load.protocol import ReadCall, SendCall
from .values import Bytes, Rate, Seconds

MOST_BODY = 4 << 20
#: A body begins with the time at which it was due, and with its number if losses are counted.
LEAST_BODY = 16
MOST_STEPS = 64
MOST_FAULTS = 1000

_Few = Annotated[int, Meta(ge=1, le=1000)]
_Window = Annotated[int, Meta(ge=1, le=100_000)]
_Name = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
_Word = Annotated[str, Meta(pattern=r"^[^\x00-\x20|\x7f]{1,64}$")]
_Size = Annotated[int, Meta(ge=LEAST_BODY, le=MOST_BODY)]
_Share = Annotated[float, Meta(ge=0, le=1)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Topics(_Table, frozen=True):
    """`[topics]`: `count` topics of `queues` queues; messages go to the topics in turn."""

    name: _Name = "bench"
    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    queues: Annotated[int, Meta(ge=1, le=1024)] = 4


class Uniform(_Table, frozen=True, tag="uniform", tag_field="distribution"):
    """Sizes between two, each as likely as the others."""

    least: _Size
    most: _Size


class Lognormal(_Table, frozen=True, tag="lognormal", tag_field="distribution"):
    """Sizes around `median`; `sigma` is the deviation of their logarithm. Cut off at `most`."""

    median: _Size
    sigma: Annotated[float, Meta(gt=0, le=5)]
    most: _Size = MOST_BODY


class Listed(_Table, frozen=True, tag="list", tag_field="distribution"):
    """Some sizes with their weights (equal ones without)."""

    values: Annotated[list[_Size], Meta(min_length=1, max_length=1000)]
    weights: list[Annotated[float, Meta(ge=0, le=1e9)]] = []

    def __post_init__(self) -> None:
        if self.weights and len(self.weights) != len(self.values):
            raise ValueError(f"weights: as many as values ({len(self.values)}), or none")
        if self.weights and not sum(self.weights):
            raise ValueError("weights: at least one of them must be above 0")


class Payload(_Table, frozen=True):
    """`[producers.payload]`: what bodies hold: random bytes, of which the share `compressible` is
    one letter; or pieces of a `file`; or rows of a `parquet` file (one `column`, or all as JSON).
    """

    compressible: _Share = 0.0
    file: str = ""
    parquet: str = ""
    column: str = ""

    def __post_init__(self) -> None:
        if self.file and self.parquet:
            raise ValueError("file and parquet: give one of them")
        if self.column and not self.parquet:
            raise ValueError("column: only with parquet")


class Producers(_Table, frozen=True):
    """`[producers]`: `processes` that send at `rate` together. `keys` is the number of different
    keys, 0 for none; `tags` are given in turn.
    """

    processes: Annotated[int, Meta(ge=1, le=256)] = 1
    call: SendCall = "oneway"
    window: _Window = 64
    batch: Annotated[int, Meta(ge=1, le=1024)] = 32
    rate: Rate = Rate("max")
    size: _Size | Uniform | Lognormal | Listed = 1024
    payload: Payload = Payload()
    keys: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    tags: Annotated[list[_Word], Meta(max_length=1000)] = []
    #: Messages of all producers after which they end; 0 is no such limit.
    messages: Annotated[int, Meta(ge=0, le=10**12)] = 0


class Consumers(_Table, frozen=True):
    """`[consumers]`: `groups` groups of `processes` members each; 0 groups is nobody. `most` is the
    number of messages of one read. With `after` they begin when the producers have ended, and read
    everything (a drain); `cold` removes the files from the page cache before.
    """

    groups: Annotated[int, Meta(ge=0, le=1000)] = 0
    processes: _Few = 1
    call: ReadCall = "poll"
    most: Annotated[int, Meta(ge=1, le=100_000)] = 256
    acknowledge: Literal["auto", "each"] = "auto"
    after: bool = False
    cold: bool = False

    def __post_init__(self) -> None:
        if self.cold and not self.after:
            raise ValueError("cold: only with after = true")
        if self.acknowledge == "each" and self.call in ("arrow", "arrow-views", "listen"):
            raise ValueError(f'acknowledge: "each" is not for call = "{self.call}"')


class Store(_Table, frozen=True):
    """`[store]`: how the server keeps messages. `settings` are the target's own."""

    flush: Literal["async", "sync"] = "async"
    pool: bool = False
    file_size: Bytes = Bytes(1 << 30)
    settings: dict[str, str | int | float | bool] = {}

    def __post_init__(self) -> None:
        if not 1 << 16 <= self.file_size <= 1 << 31:
            raise ValueError(f"file_size: {self.file_size} is not within 64KiB to 2GiB")


class Fault(_Table, frozen=True):
    """`[[faults]]`: what is done `at` a time of the measured part, or again and again `every` so
    long. `kill` and `stop` (for the time `lasts`) concern a process of the server: its name, or
    "each" for one after the other. `fill-disk` takes what is left of the folder's file system, and
    `pause-consumers` stops the consumers.
    """

    kind: Literal["kill", "stop", "fill-disk", "pause-consumers"]
    what: _Name = "each"
    at: Seconds | None = None
    every: Seconds | None = None
    lasts: Seconds = Seconds(1.0)

    def __post_init__(self) -> None:
        if (self.at is None) == (self.every is None):
            raise ValueError("at, every: give one of them")
        if self.every is not None and self.every < 0.1:
            raise ValueError("every: at least 0.1 s")
        if self.kind in ("fill-disk", "pause-consumers") and self.what != "each":
            raise ValueError(f'what: not for kind = "{self.kind}"')

    def times(self, duration: float) -> list[float]:
        """When it is done, seconds of the measured part."""
        if self.at is not None:
            return [float(self.at)] if self.at < duration else []
        assert self.every is not None
        count = min(MOST_FAULTS, int(duration / self.every))
        return [n * self.every for n in range(1, count + 1) if n * self.every < duration]


class Sweep(_Table, frozen=True):
    """`[sweep]`: the workload is run with each of `values` for `key`, such as "topics.count"."""

    key: Annotated[str, Meta(pattern=r"^[a-z_]+(\.[A-Za-z_]+){0,2}$")]
    values: Annotated[list[Any], Meta(min_length=1, max_length=MOST_STEPS)]


class Workload(_Table, frozen=True):
    """A whole file."""

    description: Annotated[str, Meta(max_length=1000)] = ""
    #: The server; "remoting" with `address` is one that runs already.
    target: _Name = "silomq"
    address: Annotated[str, Meta(pattern=r"^$|^[^ ]+:[0-9]{1,5}$")] = ""
    duration: Seconds = Seconds(30.0)
    warm_up: Seconds = Seconds(5.0)
    runs: Annotated[int, Meta(ge=1, le=1000)] = 1
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    #: Whether lost and doubled messages are counted.
    check: bool = False
    #: Whether free memory is filled with the page cache before each run.
    full_memory: bool = False
    topics: Topics = Topics()
    producers: Producers = Producers()
    consumers: Consumers = Consumers()
    store: Store = Store()
    faults: Annotated[list[Fault], Meta(max_length=100)] = []
    sweep: Sweep | None = None

    def __post_init__(self) -> None:
        if not self.duration >= 1:
            raise ValueError("duration: at least 1 s")
        if self.check and not self.consumers.groups:
            raise ValueError("check: messages are only counted if consumers.groups is above 0")
        if self.consumers.after and self.faults:
            raise ValueError("faults: not with consumers.after")
        if self.producers.rate.share is not None and self.consumers.after:
            raise ValueError("producers.rate: a share of the maximum is not for consumers.after")
