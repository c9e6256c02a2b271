"""A descriptor in event loops: registered while somebody waits, and closed once nobody does."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest
from support.children import forked
from support.open_files import nothing_stays_open, open_files

from silomq.client.loop_reader import LoopReaders, wake_all

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def registered() -> int:
    """How many descriptors the running loop watches, besides its own."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined] # a test looks
    return len(selector.get_map()) - 1


def ends_of(pipe: tuple[int, int]) -> int:
    """How many descriptors of this process lead to the pipe."""
    name = os.readlink(f"/proc/self/fd/{pipe[0]}")
    return list(open_files().values()).count(name)


def test_all_who_wait_in_a_loop_are_woken(pipe: tuple[int, int]) -> None:
    async def main() -> None:
        readers = LoopReaders(wake_all)
        tasks = [asyncio.create_task(readers.readable(pipe[0])) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert registered() == 1
        os.write(pipe[1], b"x")
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert registered() == 0
        readers.close()

    with nothing_stays_open():
        asyncio.run(main())


def test_a_cancelled_task_waits_no_more(pipe: tuple[int, int]) -> None:
    async def main() -> None:
        readers = LoopReaders(wake_all)
        first, second = (asyncio.create_task(readers.readable(pipe[0])) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        assert registered() == 1
        second.cancel()
        await asyncio.sleep(0.01)
        assert registered() == 0
        readers.close()

    with nothing_stays_open():
        asyncio.run(main())


def test_a_descriptor_is_closed_when_its_waiter_has_gone(pipe: tuple[int, int]) -> None:
    """Another thread closes the client, and another file gets the descriptor's number."""

    async def main() -> None:
        readers = LoopReaders(wake_all)
        fd = os.dup(pipe[0])
        task = asyncio.create_task(readers.readable(fd))
        await asyncio.sleep(0.01)
        os.close(fd)
        readers.close()
        other = os.dup(pipe[1])
        assert other == fd
        os.write(pipe[1], b"x")
        await asyncio.wait_for(task, 30)
        os.close(other)
        assert registered() == 0

    with nothing_stays_open():
        asyncio.run(main())


def test_loops_of_many_threads(pipe: tuple[int, int]) -> None:
    readers = LoopReaders(wake_all)
    waiting = threading.Semaphore(0)

    async def main() -> None:
        waiting.release()
        await asyncio.wait_for(readers.readable(pipe[0]), 30)

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    with nothing_stays_open():
        for thread in threads:
            thread.start()
        for _ in threads:
            waiting.acquire()
        os.write(pipe[1], b"x")
        for thread in threads:
            thread.join()
        readers.close()


def test_a_loop_that_was_closed_leaves_no_descriptor(pipe: tuple[int, int]) -> None:
    readers = LoopReaders(wake_all)
    before = len(open_files())
    for _ in range(5):
        loop = asyncio.new_event_loop()
        waits = readers.readable(pipe[0])
        loop.call_soon(lambda: waits.send(None))  # noqa: B023 # it is called in this round
        loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()
        waits.close()
        assert len(open_files()) <= before + 1
    readers.close()
    assert len(open_files()) == before


def test_a_forked_child_leaves_the_parents_loop_alone(pipe: tuple[int, int]) -> None:
    """Its epoll is the same as the parent's."""

    async def main() -> None:
        readers = LoopReaders(wake_all)
        task = asyncio.create_task(readers.readable(pipe[0]))
        await asyncio.sleep(0.01)
        here = ends_of(pipe)

        def work() -> str:
            task.get_coro().close()  # as the child's end would do
            return str(ends_of(pipe))

        with forked(work) as (_, result):
            assert int(result()) == here - 1, "the child has no duplicate"
        os.write(pipe[1], b"x")
        await asyncio.wait_for(task, 30)
        readers.close()

    asyncio.run(main())
