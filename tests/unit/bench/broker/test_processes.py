"""Memory of processes, as the kernel tells it."""

from __future__ import annotations

import os

import psutil
import pytest

from silomq.bench.broker.processes import cpu_seconds, own_bytes, parse_own, tree

ROLLUP = """55d4c4a0b000-7ffd1b5f2000 ---p 00000000 00:00 0                          [rollup]
Rss:                9000 kB
Pss:                8000 kB
Pss_Anon:           1000 kB
Pss_File:           6000 kB
Pss_Shmem:            24 kB
Anonymous:          1500 kB
SwapPss:               0 kB
"""


def test_mapped_files_do_not_count() -> None:
    assert parse_own(ROLLUP) == 1024 * 1024


def test_a_kernel_that_does_not_tell_is_said() -> None:
    with pytest.raises(ValueError, match=r"Linux 5\.4"):
        parse_own("Rss: 9000 kB\n")


def test_this_process_has_memory_and_has_used_time() -> None:
    found = tree([os.getpid()])
    assert found[0] == psutil.Process()
    assert own_bytes(found[:1]) > 1 << 20
    assert cpu_seconds(found[:1]) > 0
