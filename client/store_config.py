"""What a client knows of a store's configuration: the registry's answer to its first request."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from ..shm.protocol.answers import Welcome
from ..store.reading.get_message import Transfer
from ..store.record.ids import LOCALHOST, local_address, month_bounds_ms

#: In this time (s) the supervisor has replaced a frozen process, and the successor has caught up,
#: also on a busy machine.
_REPLACE_S = 7.0


@dataclass(frozen=True)
class StoreConfig:
    """The store's configuration that a client needs, in the form that the compiled modules take.

    Hosts are 8 or 20 bytes; `level` is an AckLevel; sizes are in bytes. `key_epoch_ms` is the start
    of the month, from which unique keys count their time. `patience_s` is the time in which the
    store answers even if it must replace a frozen process first.
    """

    store: str
    store_host: bytes
    born_host: bytes
    born_address: bytes
    max_message_size: int
    level: int
    sync_flush_timeout_ms: int
    append_crc: bool
    light: bool  # whether messages may be put into light queues
    producer_spin_us: int
    page_cache_busy_ms: int
    patience_s: float
    key_epoch_ms: int
    file_size_commit_log: int
    file_size_consume_queue: int
    delay_levels: int
    index_slots: int
    index_entries: int  # of an index file; 0: the store keeps no index
    transfer: Transfer

    @classmethod
    def of(cls, welcome: Welcome) -> StoreConfig:
        """The registry's answer, with this machine's address and the start of the month added."""
        return cls(
            store=welcome.store,
            store_host=bytes.fromhex(welcome.store_host),
            born_host=LOCALHOST.packed(),
            born_address=local_address(),
            max_message_size=welcome.max_message_size,
            level=welcome.level,
            sync_flush_timeout_ms=welcome.sync_flush_timeout_ms,
            append_crc=welcome.append_crc,
            light=welcome.light,
            producer_spin_us=welcome.producer_spin_us,
            page_cache_busy_ms=welcome.page_cache_busy_ms,
            patience_s=welcome.heartbeat_timeout_ms / 1000 + _REPLACE_S,
            key_epoch_ms=month_bounds_ms(int(time.time() * 1000))[0],
            file_size_commit_log=welcome.file_size_commit_log,
            file_size_consume_queue=welcome.file_size_consume_queue,
            delay_levels=welcome.delay_levels,
            index_slots=welcome.index_slots,
            index_entries=welcome.index_entries,
            transfer=Transfer(**msgspec.structs.asdict(welcome.transfer)),
        )
