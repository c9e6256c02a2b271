"""A bell's page and sockets: what a client can do with its own, and what it cannot."""

from __future__ import annotations

import array
import os
import socket

import pytest
from support.open_files import nothing_stays_open

from silomq.shm import bell
from silomq.shm._memory import Mapping
from silomq.shm.bell import BellEnds, Reason
from silomq.shm.control import ARRIVAL_WORDS


def test_a_new_bell_is_awake_and_watches_nothing() -> None:
    with nothing_stays_open():
        ends = bell.create(7)
        page = Mapping(ends.page, 0, bell.SIZE)
        assert bytes(page) == bytes(bell.SIZE)
        with pytest.raises(PermissionError):
            os.ftruncate(ends.page, 0)
        ends.close()
        assert (ends.page, ends.store, ends.client) == (-1, -1, -1)
        ends.close()


def test_ends_that_a_process_does_not_have_are_not_closed() -> None:
    with nothing_stays_open():
        ends = bell.create(7)
        os.close(ends.client)
        BellEnds(ends.page, ends.store).close()


def test_the_client_sends_nothing_to_the_store() -> None:
    """Neither bytes nor descriptors, whose last close could take long."""
    ends = bell.create(7)
    with socket.socket(fileno=ends.client) as client:
        ends.client = -1
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [ends.page]))]
        for ancillary in ([], rights):
            with pytest.raises(BrokenPipeError):
                client.sendmsg([b"x"], ancillary)
    ends.close()


def test_the_end_of_the_store_hangs_up() -> None:
    ends = bell.create(7)
    os.close(ends.store)
    ends.store = -1
    with socket.socket(fileno=ends.client) as client:
        ends.client = -1
        assert client.recv(1) == b""
    ends.close()


def test_reasons_fit_beside_the_number_of_the_sleep() -> None:
    assert sum(Reason) < 256
    at, size = bell.BELL["watched"]
    assert at + size <= bell.SIZE
    assert 8 * size == ARRIVAL_WORDS
