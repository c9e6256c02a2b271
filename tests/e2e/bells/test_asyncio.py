"""asyncio over a real store: no thread but those that are there, through kills and restarts."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess

from silomq import Admin, Consumer, GroupConsumer, Producer, SessionLost, StoreClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from silomq import MessageView, SendFuture, SendResult

WAIT_S = 30.0


async def result_of(future: SendFuture) -> SendResult:
    return await asyncio.wait_for(future, WAIT_S)


async def bodies_of(messages: AsyncIterator[MessageView], count: int) -> list[bytes]:
    """The next `count` bodies of an iteration."""
    found: list[bytes] = []
    async for message in messages:
        found.append(message.body)
        if len(found) == count:
            break
    return found


def test_no_thread_is_needed(store: StoreProcess) -> None:
    async def main() -> None:
        with Admin(store.path) as admin:
            admin.create_topic("threads", 4)
        with (
            Producer(store.path) as producer,
            Consumer(store.path, "threads") as consumer,
            GroupConsumer(store.path, "g-threads", "threads", start="earliest") as member,
        ):
            before = threading.enumerate()
            readers = [
                asyncio.create_task(bodies_of(aiter(each), 200)) for each in (consumer, member)
            ]
            bodies = [b"%d" % number for number in range(200)]
            for body in bodies[:20]:
                await result_of(producer.send_async("threads", body))
                await asyncio.sleep(0.002)
            sends = [result_of(producer.send_async("threads", body)) for body in bodies[20:]]
            await asyncio.gather(*sends)
            for reader in readers:
                assert sorted(await asyncio.wait_for(reader, WAIT_S)) == sorted(bodies)
            assert threading.enumerate() == before

    asyncio.run(main())


def test_a_cancelled_iteration_loses_nothing(store: StoreProcess) -> None:
    async def main() -> None:
        with Admin(store.path) as admin:
            admin.create_topic("cancel", 4)
        with (
            Producer(store.path) as producer,
            GroupConsumer(
                store.path, "g-cancel", "cancel", start="earliest", auto_ack=False
            ) as member,
        ):
            found: list[bytes] = []

            async def work() -> None:
                async for message in member:
                    found.append(message.body)  # it must be seen when cancelled
                    member.ack(message)

            for number in range(60):
                task = asyncio.create_task(work())
                await result_of(producer.send_async("cancel", b"%d" % number))
                await asyncio.sleep(0.001 * (number % 5))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            rest = asyncio.create_task(work())
            deadline = time.monotonic() + WAIT_S
            while len(found) < 60 and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)
            assert sorted(found) == sorted(b"%d" % number for number in range(60))

    asyncio.run(main())


def test_loops_of_many_threads_share_a_producer(store: StoreProcess) -> None:
    with Producer(store.path) as producer:

        async def work() -> None:
            for _ in range(200):
                await result_of(producer.send_async("loops", b"x"))

        threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert producer.in_flight == 0


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_the_end_of_the_store_ends_what_waits(tmp_path: Path, how: str) -> None:
    """As it ends what waits without asyncio."""

    async def main(store: StoreProcess) -> None:
        producer = Producer(store.path)
        await result_of(producer.send_async("t", b"x"))
        store.await_dispatch()
        consumer = Consumer(store.path, "t", offset="latest")
        member = GroupConsumer(store.path, "g", "t", start="latest")
        waiting: list[asyncio.Task[Any]] = [
            asyncio.create_task(bodies_of(aiter(each), 1)) for each in (consumer, member)
        ]
        await asyncio.sleep(0.2)
        if how == "crash":
            store.kill("append", signal.SIGSTOP)  # the future stays open
            waiting.append(asyncio.create_task(result_of(producer.send_async("t", b"y"))))
            await asyncio.sleep(0.05)
        await asyncio.to_thread(getattr(store, how))
        ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), WAIT_S)
        assert ends[0] == []
        assert ends[1] == [] or isinstance(ends[1], SessionLost)
        assert all(isinstance(end, StoreClosed) for end in ends[2:])
        for client in (producer, consumer, member):
            client.close()

    with StoreProcess(tmp_path / "store") as store:
        asyncio.run(main(store))


def test_an_await_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main(store: StoreProcess) -> None:
        with Producer(store.path, on_restart="retry") as producer:
            bodies = [b"%d" % number for number in range(200)]
            for body in bodies[:100]:
                await result_of(producer.send_async("t", body, queue=0))
            restart = asyncio.create_task(asyncio.to_thread(restarted, store))
            for body in bodies[100:]:
                await result_of(producer.send_async("t", body, queue=0))
            await restart
        with Consumer(store.path, "t", queues=[0]) as consumer:
            found = [message.body for message in consumer.poll(1000, 10.0)]
        assert set(bodies) <= set(found)

    def restarted(store: StoreProcess) -> None:
        store.crash()
        store.start()

    with StoreProcess(tmp_path / "store") as store:
        asyncio.run(main(store))


def test_syncs_in_a_loop(tmp_path: Path) -> None:
    async def main(store: StoreProcess) -> None:
        with Producer(store.path) as producer:
            sends = [result_of(producer.send_async("t", b"x" * n)) for n in range(100)]
            results = await asyncio.gather(*sends)
            assert {result.level for result in results} == {"durable"}
            pid = store.kill("flush", signal.SIGSTOP)
            began = time.monotonic()
            late = await result_of(producer.send_async("t", b"late"))
            assert late.status.name == "FLUSH_DISK_TIMEOUT"
            assert 0.3 <= time.monotonic() - began < 5
            store.kill("flush", signal.SIGCONT)
            assert pid == store.pid("flush")

    with StoreProcess(
        tmp_path / "store",
        flush_disk_type="SYNC_FLUSH",
        sync_flush_timeout_ms=400,
        heartbeat_timeout_ms=60_000,
    ) as store:
        asyncio.run(main(store))
