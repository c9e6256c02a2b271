"""Forking a process of the store when something is short: nothing is left behind."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

import psutil
import pytest
from support.open_files import nothing_stays_open

from silomq.supervisor import child


def fail(*_: object) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def wait_for_the_end(_name: str, ready_fd: int) -> None:
    """What the child does."""
    os.read(os.pipe()[0], 1)
    os._exit(ready_fd)


@pytest.mark.parametrize("call", ["pipe2", "fork", "pidfd_open"])
def test_a_fork_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    this = psutil.Process()
    before = this.children()
    with nothing_stays_open(), monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="Too many open files"):
            child.fork("append", wait_for_the_end)
    assert set(this.children()) <= set(before)
