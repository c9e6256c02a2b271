"""Where RocketMQ's recovery begins, worked out from the records themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.store.disk.paths import COMMIT_LOG, file_name
from silomq.store.record.format import encode_record
from silomq.store.record.ids import LOCALHOST, Host
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.tools.raw.files import StoreFiles, read_settings
from silomq.tools.rocketmq.logs import LogView

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 1 << 16
FILES = 4
FIRST_MS = 1_700_000_000_000
#: What RocketMQ takes off the times of its checkpoint.
MARGIN_MS = 3000


@pytest.mark.parametrize("born_host", [LOCALHOST, Host(bytes(15) + b"\x01", 1)], ids=["v4", "v6"])
@pytest.mark.parametrize("newest_safe", range(FILES))
def test_recovery_begins_at_the_newest_file_that_the_checkpoint_covers(
    born_host: Host, newest_safe: int, tmp_path: Path
) -> None:
    """Also where its first record came from a host with an IPv6 address, which moves its time."""
    log = tmp_path / COMMIT_LOG
    log.mkdir()
    for number in range(FILES):
        record = encode_record(
            b"t",
            b"",
            physical_offset=number * FILE_SIZE,
            born_host=born_host,
            store_timestamp=FIRST_MS + number,
        )
        (log / file_name(number * FILE_SIZE)).write_bytes(record.ljust(FILE_SIZE, b"\0"))
    settings = read_settings(None, [f"mapped_file_size_commit_log={FILE_SIZE}"])
    view = LogView(StoreFiles(tmp_path, settings))
    safe = FIRST_MS + newest_safe + MARGIN_MS
    found = view.recover(Checkpoint(safe, safe, safe), clean=False)
    assert found == newest_safe * FILE_SIZE
