"""What the harness and a worker say to each other: an `Order` in, `Tick`s out, as lines of JSON.

The harness writes one order and a newline to the worker's standard input. The worker connects,
writes `Ready`, and waits for the line that the harness writes when all workers are ready: the
start, in ns of CLOCK_MONOTONIC. The worker then writes one `Tick` for each second since the start
(warm-up included; also for seconds in which nothing happened) and a `Done` at its end. A worker
ends in order when its standard input is closed. What it writes to standard error is shown to the
user if it fails.
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: Latencies are recorded in us, from 1 us to 1 h with three digits.
LOWEST_US = 1
HIGHEST_US = 3_600_000_000
DIGITS = 3
#: Bytes at the front of each body: when the message was due, ns of CLOCK_MONOTONIC, big-endian.
STAMP = 8

Role = Literal["produce", "consume"]
#: How a producer sends. `async` keeps `window` messages under way; `batch` sends `batch` messages
#: with one call, and waits for its answer. The one-way calls wait for none. Not every target has
#: every way.
SendCall = Literal["oneway", "send", "async", "batch", "batch-oneway"]
#: How a consumer reads. Not every target has every way. `arrow-views` are batches of Arrow whose
#: bodies are not copied.
ReadCall = Literal["poll", "iterate", "listen", "pop", "arrow", "arrow-views"]


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of bodies in bytes: `values` with their `weights` (equal ones if empty). A distribution
    is drawn from beforehand, so that each worker, in any language, sends the same sizes.
    """

    values: list[int]
    weights: list[float] = []


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The work of one worker. `endpoint` is what the target gave (`Running.endpoint`)."""

    role: Role
    target: str
    endpoint: dict[str, str]
    #: Numbers this worker among all of its role, and says how many there are.
    index: int
    workers: int
    topics: list[str]
    queues: int
    seed: int
    warm_up_s: float
    duration_s: float
    # what a producer does
    call: str = "send"
    window: int = 1
    batch: int = 1
    #: Messages a second of this worker; 0 is as fast as it goes (closed loop).
    rate: float = 0.0
    #: Messages after which this worker ends before its time; 0 is no such limit.
    messages: int = 0
    sizes: Sizes = Sizes([128])
    #: A file with the bytes that bodies are cut from, made once by the harness.
    payload: str = ""
    tags: list[str] = []
    keys: int = 0
    #: What stands behind the stamp of each body, so that lost and doubled messages can be counted:
    #: nothing, or 8 bytes with the producer's `index` (the upper 16 bits) and the message's number,
    #: big-endian. The folder in which a worker then writes its file `ROLE-GROUP-INDEX` (a producer
    #: has no group): these numbers of all messages that were acknowledged, or read, each as 8 bytes
    #: in the machine's order.
    check: str = ""
    # what a consumer does
    group: str = ""
    #: Acknowledges what it read with each next read ("auto"), or each message by a call ("each").
    acknowledge: str = "auto"
    #: Messages of one read at most.
    most: int = 256
    #: Reads until this many messages were read by the group's workers, then ends; 0: until the end
    #: of the duration.
    drain: int = 0
    #: Whether messages wait for this worker (a backlog): how old they are is no latency then.
    is_backlog: bool = False


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Connected. `versions` names the client's library, e.g. {"confluent-kafka": "2.16.1"}."""

    versions: dict[str, str] = {}


class Tick(msgspec.Struct, frozen=True, tag="tick"):
    """What a worker did in second number `second` since the start. Histograms are HdrHistogram's
    compressed base64 form (V2), "" if empty.
    """

    second: int
    messages: int = 0
    bytes: int = 0
    errors: int = 0
    #: From the time at which a message was due to its acknowledgement.
    publish: str = ""
    #: From the same time until the message is on the disk, if the target can tell.
    durable: str = ""
    #: From the time at which a message was due to the time at which it was sent (open loop).
    delay: str = ""
    #: From the time at which a message was due to the time at which a consumer had it.
    end_to_end: str = ""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The last line. `messages` counts all, also those of the warm-up; `first_error` is the first
    of `errors` in words.
    """

    messages: int
    errors: int = 0
    first_error: str = ""
    #: CPU time of the worker in seconds, from the start to its end.
    cpu_s: float = 0.0
    #: From the start until the last message was read, s; 0 if the worker does not tell.
    read_s: float = 0.0


Said = Ready | Tick | Done
