"""Reading: PULL_MESSAGE and LITE_PULL_MESSAGE (RocketMQ's PullMessageProcessor)."""

from __future__ import annotations

import functools
import time
from typing import Final

import msgspec

from ...store.errors import StoreError
from ...store.filters.tags import FilterError, MessageFilter
from ...store.names import retry_topic
from ...store.reading.get_message import MOST_BYTES
from ...store.status import GetMessageStatus
from ..groups.heartbeats import TAG, compile_filter
from ..link._records import count
from ..link.reading import Read, codes_of
from ..loop.tasks import Waiter, start
from ..statistics.statistics import group_key
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import BadHeader
from ._fast_pull import FastPull, Known
from .calls import Call, Handlers, Refused
from .parts import Parts

_COMMIT, _SUSPEND, _SUBSCRIPTION = 1, 2, 4
_PERM_READ: Final = 4
#: A pull that comes before its group's heart-beat waits so long for it (s), in steps.
_HEARTBEAT_S: Final = 2.0
_STEP_S: Final = 0.02
#: How often it is looked whether a queue has come back (s).
_BACK_S: Final = 0.2
#: A client that asks for a longer hold gets this one (ms).
_LONGEST_HOLD_MS: Final = 60_000
#: The fast path serves a queue for so long (s), then its group's settings are looked at again.
_KNOWN_S: Final = 1.0
#: The version of a subscription that comes with the pull.
_POSTED: Final = -1
_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


class PullHeader(msgspec.Struct):
    """The fields of a pull. `sub_version` is the time stamp of the client's subscription."""

    group: str
    topic: str
    queue_id: int
    offset: int
    most: int
    flags: int
    commit_offset: int
    suspend_ms: int
    subscription: str | None
    sub_version: int
    kind: str
    max_bytes: int

    @classmethod
    def of(cls, request: Command) -> PullHeader:
        """The fields of a request. Raises BadHeader."""
        fields = request.fields
        try:
            return cls(
                group=fields["consumerGroup"],
                topic=fields["topic"],
                queue_id=int(fields["queueId"]),
                offset=int(fields["queueOffset"]),
                most=max(1, int(fields["maxMsgNums"])),
                flags=int(fields["sysFlag"]),
                commit_offset=int(fields.get("commitOffset", "0")),
                suspend_ms=int(fields.get("suspendTimeoutMillis", "0")),
                subscription=fields.get("subscription"),
                sub_version=int(fields.get("subVersion", "0")),
                kind=fields.get("expressionType") or TAG,
                max_bytes=int(fields.get("maxMsgBytes", str(MOST_BYTES))),
            )
        except KeyError as error:
            raise BadHeader(f"the request has no field {error.args[0]!a}") from error
        except ValueError as error:
            raise BadHeader(f"the request's fields: {error}") from error


@functools.lru_cache(1024)
def compiled(kind: str, expression: str | None) -> MessageFilter | None:
    """The filter of an expression, None for one that takes everything. Raises FilterError."""
    found = compile_filter(kind, expression)
    return None if kind == TAG and found.codes is None else found


class Selection(msgspec.Struct, frozen=True):
    """The filter of a pull, None if it takes everything. `version` is that of the subscription,
    `_POSTED` if the pull has brought it, and None if the filter is good for this pull only.
    """

    chosen: MessageFilter | None
    version: int | None = None


class PullProcessor:
    """Gives consumers their messages, and holds their pulls while there are none."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._loop = parts.loop
        self._link = parts.link
        self._topics = parts.topics
        self._reading = parts.reading
        self._progress = parts.progress
        self._shared = parts.progress.shared
        self._consumers = parts.consumers
        self._holds = parts.holds
        self._counts = parts.counts
        self._statistics = parts.statistics
        self._logger = parts.logger
        #: Serves what needs no decision.
        self.fast = FastPull(
            parts.progress.note,
            parts.holds,
            _LONGEST_HOLD_MS / 1000 if parts.settings.long_polling_enable else 0.0,
            parts.settings.max_unsent_size,
        )
        parts.counts.fast.append(self.fast)
        parts.statistics.reads.append(self.fast.reads)
        parts.statistics.reached.append(self.fast.reached)
        for changes in (
            parts.link.ended, parts.topics.forgotten, parts.progress.was_reset,
            parts.consumers.changed, parts.progress.shared.changed, parts.statistics.forgotten,
        ):  # fmt: skip
            changes.append(self.fast.forget)

    @property
    def handlers(self) -> Handlers:
        return {RequestCode.PULL_MESSAGE: self.pull, RequestCode.LITE_PULL_MESSAGE: self.pull}

    async def pull(self, call: Call) -> Command:
        """Reads a queue for a member of a group."""
        header = PullHeader.of(call.request)
        await self._check(header)
        selection = await self._filter(header)
        chosen = selection.chosen
        if self._is_refused(call, header):
            return self._answer(call.request, header, await self._hold_back(call, header))
        queue = (header.topic, header.queue_id)
        self._shared.pulled(call.connection, header.group, queue, header.offset)
        key = (header.group, header.topic, header.queue_id)
        reset = self._progress.resets.pop(key, None)
        if reset is not None:
            await self._progress.commit(*key, reset)
            least, end = self._reading.bounds(header.topic, header.queue_id)
            moved = Read(GetMessageStatus.OFFSET_RESET, b"", reset, least, end)
            return self._answer(call.request, header, moved)
        if header.flags & _COMMIT:
            start(self._commit(header))
        if call.connection.unsent > self._settings.max_unsent_size:
            # Answers to what it has asked before wait for it: it pulls again when it has read them.
            least, end = self._reading.bounds(header.topic, header.queue_id)
            none = Read(GetMessageStatus.NO_MATCHED_MESSAGE, b"", header.offset, least, end)
            return self._answer(call.request, header, none)
        read = self._read(header, chosen)
        known = read.status in (GetMessageStatus.FOUND, GetMessageStatus.OFFSET_OVERFLOW_ONE)
        if known and self._shared.is_settled(header.group, queue):
            self._learn(header, selection, read.next)
        not_found = _code(read, header.offset) == ResponseCode.PULL_NOT_FOUND
        if header.flags & _SUSPEND and not_found and self._holds.count < self._holds.MOST:
            read = await self._hold(call, header, chosen, read)
            if self._is_refused(call, header):
                read = await self._hold_back(call, header)
        return self._answer(call.request, header, read)

    def _is_refused(self, call: Call, header: PullHeader) -> bool:
        """Whether a member reads a queue that a client of the store has now: it has not divided
        again yet.
        """
        if not self._shared.refuses(header.group, (header.topic, header.queue_id)):
            return False
        return self._consumers.is_sharing(header.group, call.connection)

    async def _hold_back(self, call: Call, header: PullHeader) -> Read:
        """Holds a pull as if there were no message."""
        held_ms = min(header.suspend_ms, _LONGEST_HOLD_MS) if header.flags & _SUSPEND else 0
        deadline = time.monotonic() + held_ms / 1000
        while time.monotonic() < deadline and not call.connection.closed:
            if not self._is_refused(call, header):
                break
            await self._sleep(_BACK_S)
        least, end = self._reading.bounds(header.topic, header.queue_id)
        return Read(GetMessageStatus.OFFSET_FOUND_NULL, b"", header.offset, least, end)

    async def _sleep(self, seconds: float) -> None:
        step: Waiter[None] = Waiter()
        self._loop.call_later(seconds, lambda: step.set(None))
        await step

    def _read(self, header: PullHeader, chosen: MessageFilter | None) -> Read:
        return self._reading.read(
            header.topic,
            header.queue_id,
            header.offset,
            most=header.most,
            max_bytes=header.max_bytes,
            chosen=chosen,
        )

    async def _hold(
        self, call: Call, header: PullHeader, chosen: MessageFilter | None, read: Read
    ) -> Read:
        """Waits for a message that the filter takes, as long as the client allows. What is passed
        over meanwhile is not read again.
        """
        wanted_ms = min(header.suspend_ms, _LONGEST_HOLD_MS)
        if not self._settings.long_polling_enable:
            wanted_ms = self._settings.short_polling_time_ms
        deadline = time.monotonic() + wanted_ms / 1000
        while time.monotonic() < deadline and not call.connection.closed:
            await self._holds.wait(
                header.topic, header.queue_id, read.end, deadline, call.connection
            )
            call.check()
            if call.connection.unsent > self._settings.max_unsent_size:
                return read
            again = self._read(header, chosen)
            if again.status == GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
                await self._check(header)  # the topic was deleted
                return again
            if again.status == GetMessageStatus.NO_MATCHED_MESSAGE:
                header.offset = again.next
                if again.next < again.end:
                    read = Read(read.status, b"", again.next, again.least, again.next)
                    continue
                read = again
                continue
            if _code(again, header.offset) != ResponseCode.PULL_NOT_FOUND:
                return again
            read = Read(again.status, b"", again.next, again.least, again.end)
        return read

    def _learn(self, header: PullHeader, selection: Selection, reached: int) -> None:
        """Teaches the fast path a queue, unless a pull of it may need a decision again."""
        chosen, version = selection.chosen, selection.version
        codes = None if chosen is None else codes_of(chosen)
        if version is None or (chosen is not None and codes is None):
            return
        place = self._reading.place(header.topic, header.queue_id)
        if place is None:
            return
        known = Known(
            header.group,
            header.topic,
            place,
            codes,
            subscription=header.subscription if version == _POSTED else None,
            kind=header.kind,
            version=version,
            until=time.monotonic() + _KNOWN_S,
            meter=self._statistics.gets.of(group_key(header.topic, header.group)),
            reached=reached,
        )
        self.fast.learn(known, header.queue_id)

    async def _commit(self, header: PullHeader) -> None:
        try:
            await self._progress.commit(
                header.group, header.topic, header.queue_id, header.commit_offset
            )
        except (StoreError, OSError) as error:
            self._logger.warning("cannot note an offset", group=header.group, error=str(error))

    # -- checks

    async def _check(self, header: PullHeader) -> None:
        """Raises Refused for a group that may not consume, and for a queue that is not there."""
        settings = await self._topics.group(
            header.group, make=self._settings.auto_create_subscription_group
        )
        if not settings.known:
            why = f"subscription group [{header.group}] does not exist"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        if not settings.consume_enable:
            why = f"subscription group [{header.group}] is not permitted to consume"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        if header.topic in settings.forbidden:
            why = f"the consumer group [{header.group}] is forbidden for topic [{header.topic}]"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        topic = self._link.find(header.topic)
        if topic is None:
            why = f"topic[{header.topic}] not exist, apply first please!"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        if not topic.perm & _PERM_READ:
            why = f"the topic[{header.topic}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            why = f"queueId[{header.queue_id}] is illegal, topic[{header.topic}] has "
            why += f"{topic.read_queue_nums} queues to read"
            raise Refused(ResponseCode.INVALID_PARAMETER, why)
        group = self._consumers.get(header.group)
        if group is not None and group.broadcasts and not settings.consume_broadcast_enable:
            why = f"subscription group [{header.group}] is not permitted to broadcast"
            raise Refused(ResponseCode.NO_PERMISSION, why)

    async def _filter(self, header: PullHeader) -> Selection:
        """The filter of a pull. Raises Refused."""
        version: int | None
        if header.flags & _SUBSCRIPTION:
            kind, expression = header.kind, header.subscription
            version = _POSTED
        else:
            if self._is_resumed(header):
                return Selection(None)
            await self._await_heartbeat(header)
            group = self._consumers.get(header.group)
            if group is None:
                why = f"the consumer's group info not exist: {header.group}"
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
            found = group.subscriptions.get(header.topic)
            if found is None:
                why = f"the consumer's subscription not exist: {header.group} {header.topic}"
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
            kind, expression = found.kind, found.sub_string
            version = found.sub_version if found.sub_version >= 0 else None
            if found.sub_version < header.sub_version:
                if kind != TAG or header.kind != TAG:
                    why = f"the consumer's subscription is not the latest: {header.group}"
                    raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, why)
                # The client filters by tags itself: it gets everything, and misses nothing until
                # its next heart-beat. RocketMQ refuses its pulls up to 30 s.
                return Selection(None)
        if kind != TAG and not self._settings.enable_property_filter:
            why = f"The broker does not support consumer to filter message by {kind}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        try:
            return Selection(compiled(kind, expression), version)
        except FilterError as error:
            why = f"parse the consumer's subscription failed: {error}"
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why) from error

    def _is_resumed(self, header: PullHeader) -> bool:
        """Whether the group has had members before, and none of them has sent a heart-beat to this
        broker yet: the broker was restarted. The client filters by tags itself, so it gets
        everything; RocketMQ refuses its pulls until its next heart-beat, up to 30 s.
        """
        if header.kind != TAG or self._consumers.has_members(header.group):
            return False
        return self._link.find(retry_topic(header.group)) is not None

    async def _await_heartbeat(self, header: PullHeader) -> None:
        """Waits a moment for the heart-beat that names the topic: it may be on its way."""
        deadline = time.monotonic() + _HEARTBEAT_S
        while time.monotonic() < deadline:
            group = self._consumers.get(header.group)
            if group is not None and header.topic in group.subscriptions:
                return
            await self._sleep(_STEP_S)

    def _answer(self, request: Command, header: PullHeader, read: Read) -> Command:
        code = _code(read, header.offset)
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(read.next),
            "minOffset": str(read.least),
            "maxOffset": str(read.end),
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        found = count(read.records)
        self._counts.pulled += found
        if found:
            self._statistics.pulled(header.topic, header.group, found, len(read.records))
        else:
            self._statistics.missed += 1
        return request.answer(code, remark=read.status.name, fields=fields, body=read.records)


def _code(read: Read, offset: int) -> ResponseCode:
    found = _CODES.get(read.status)
    if found is not None:
        return found
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
