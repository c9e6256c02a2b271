"""GET_BROKER_RUNTIME_INFO and GET_BROKER_HA_STATUS: how the broker and its store are doing, under
the names that RocketMQ's tools read.
"""

from __future__ import annotations

import os
import time
from typing import Final

from ...client.producing.refusals import while_stuck
from ...shm.control import Control
from ...store.status import AckLevel
from ..link.listings import Listings
from ..processors.calls import Call, Handlers
from ..processors.parts import Parts
from ..statistics.store_figures import Counted
from ..wire import route_data
from ..wire.codes import OUR_VERSION, RequestCode
from ..wire.command import Command
from .tools import Tools

#: RocketMQ's name of OUR_VERSION.
_VERSION_NAME: Final = "V5_3_3"
#: What the words of the control block say when a disk's use is not known.
_NOT_KNOWN: Final = 2**64 - 1
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
#: So many buffers are free where there is no pool, as RocketMQ tells it.
_NO_POOL: Final = 2**31 - 1
#: RocketMQ's pools of threads. Requests are served as they come here, so none waits in a queue.
_POOLS: Final = ("send", "pull", "litePull", "query", "ack")


class RuntimeInfo(Tools):
    """The figures of the broker at this moment."""

    def __init__(self, parts: Parts, listings: Listings) -> None:
        super().__init__(parts, listings)
        self._started_s = time.time()

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_BROKER_HA_STATUS: self.ha_status,
        }

    def counted(self) -> Counted:
        """What the statistics take a look at each second. Raises StoreGone."""
        connection = self._parts.link.connection
        control = connection.control
        found, missed = self._parts.statistics.counted_reads()
        return Counted(
            session=connection.session,
            records=control.load("records"),
            size=control.load("wrote"),
            failed=control.load("rejected"),
            found=found,
            missed=missed,
            transferred=self._parts.counts.totals()[2],
        )

    async def runtime_info(self, call: Call) -> Command:
        """All figures (KVTable)."""
        control = self._parts.link.connection.control
        self._parts.statistics.store.update(self.counted())
        table = {
            **self._life(),
            **self._puts(),
            **self._gets(),
            **self._log(control),
            "remainTransientStoreBufferNumbs": str(await self._free_buffers(control)),
            **self._disks(control),
            **self._delays(),
            **self._pools(),
        }
        return call.request.answer(body=route_data.table_of(table))

    def _life(self) -> dict[str, str]:
        up_s = int(time.time() - self._started_s)
        minutes, seconds = divmod(up_s, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return {
            "bootTimestamp": str(int(self._started_s * 1000)),
            "brokerActive": "true",
            "brokerVersion": str(OUR_VERSION),
            "brokerVersionDesc": _VERSION_NAME,
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
            "startAcceptSendRequestTimeStamp": "0",
        }

    def _puts(self) -> dict[str, str]:
        statistics = self._parts.statistics
        figures, latencies = statistics.store, statistics.latencies
        sums, total = figures.sums, figures.put_total()
        ranges = latencies.distribution().items()
        return {
            "putMessageEntireTimeMax": str(latencies.all.longest_ms),
            "putMessageTimesTotal": str(sums.puts),
            "putMessageFailedTimes": str(sums.failed),
            "putMessageSizeTotal": str(sums.size),
            "putMessageDistributeTime": "".join(f"[{name}]:{count} " for name, count in ranges),
            "putMessageAverageSize": str(sums.size / max(1, sums.puts)),
            "putTps": _rates(figures.rates("puts")),
            "putLatency99": str(latencies.percentile(0.99)),
            "putLatency999": str(latencies.percentile(0.999)),
            "msgPutTotalYesterdayMorning": str(total.yesterday),
            "msgPutTotalTodayMorning": str(total.today),
            "msgPutTotalTodayNow": str(total.now),
        }

    def _gets(self) -> dict[str, str]:
        figures = self._parts.statistics.store
        total = figures.get_total()
        return {
            "getMessageEntireTimeMax": "0",
            "getFoundTps": _rates(figures.rates("found")),
            "getMissTps": _rates(figures.rates("missed")),
            "getTotalTps": _rates(figures.rates("reads")),
            "getTransferredTps": _rates(figures.rates("transferred")),
            "msgGetTotalYesterdayMorning": str(total.yesterday),
            "msgGetTotalTodayMorning": str(total.today),
            "msgGetTotalTodayNow": str(total.now),
        }

    def _log(self, control: Control) -> dict[str, str]:
        config = self._parts.link.connection.config
        wrote = control.load("wrote")
        pool = config.level == AckLevel.MEMORY
        found = {
            "commitLogMinOffset": str(control.load("min_offset")),
            "commitLogMaxOffset": str(wrote),
            "dispatchBehindBytes": str(max(0, wrote - control.load("dispatched"))),
            "dispatchMaxBuffer": "0",
            "earliestMessageTimeStamp": str(self._parts.reading.log_begins_ms()),
            "pageCacheLockTimeMills": self._busy_ms(control, config.page_cache_busy_ms),
            "remainHowManyDataToFlush": _size(max(0, wrote - control.load("flushed"))),
        }
        if pool:
            rest = max(0, wrote - control.load("committed"))
            found["remainHowManyDataToCommit"] = _size(rest)
        return found

    async def _free_buffers(self, control: Control) -> int:
        """How many buffers of the pool hold nothing. Without a pool RocketMQ tells its greatest
        number, so that nobody is warned that there are few.
        """
        config = self._parts.link.connection.config
        if config.level != AckLevel.MEMORY:
            return _NO_POOL
        total = int((await self._listings.settings())["transientStorePoolSize"])
        first, last = (
            control.load(word) // config.file_size_commit_log for word in ("committed", "wrote")
        )
        return max(0, total - (last - first + 1))

    def _busy_ms(self, control: Control, limit_ms: int) -> str:
        """How long append has been in one batch: known when it is longer than the limit."""
        return "0" if while_stuck(control, limit_ms) is None else str(limit_ms)

    def _disks(self, control: Control) -> dict[str, str]:
        path = os.path.join(self._parts.link.connection.path, "commitlog")
        log = _ratio(control.load("log_disk_used"))
        total, free = self._parts.reading.log_space()
        return {
            "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
            "commitLogDiskRatio": log,
            f"commitLogDiskRatio_{path}": log,
            "consumeQueueDiskRatio": _ratio(control.load("queue_disk_used")),
        }

    def _delays(self) -> dict[str, str]:
        reading = self._parts.reading
        found = {
            f"scheduleMessageOffset_{level}": f"{at},{reading.delayed_end(level)}"
            for level, at in sorted(reading.delay_offsets().items())
        }
        return {
            **found,
            "timerReadBehind": "0",
            "timerOffsetBehind": "0",
            "timerCongestNum": "0",
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
        }

    def _pools(self) -> dict[str, str]:
        waiting = {"send": len(self._parts.sending.waiting)}
        found = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
        for pool in _POOLS:
            found[f"{pool}ThreadPoolQueueSize"] = str(waiting.get(pool, 0))
            found[f"{pool}ThreadPoolQueueCapacity"] = "0"
            found[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return found

    async def ha_status(self, call: Call) -> Command:
        """A master without replicas (HARuntimeInfo)."""
        end = self._parts.link.connection.control.load("wrote")
        body = {
            "haClientRuntimeInfo": {
                "activated": False,
                "lastReadTimestamp": 0,
                "lastWriteTimestamp": 0,
                "maxOffset": 0,
                "transferredByteInSecond": 0,
            },
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": end,
        }
        return call.request.answer(body=route_data.encode(body))


def _rates(values: tuple[float, ...]) -> str:
    return " ".join(map(str, values))


def _ratio(percent: int) -> str:
    return "-1.0" if percent == _NOT_KNOWN else str(percent / 100)


def _size(count: int) -> str:
    """A number of bytes in the largest unit that it fills, as RocketMQ writes it."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in _UNITS:
        amount /= 1024
        if amount < 1024 or unit == _UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"
