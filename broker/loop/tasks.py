"""Coroutines that a `Loop` resumes: `start` runs one, `Waiter` is what it awaits, and `Thread` runs
for it what would block the loop.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar

from ._loop import Loop

T = TypeVar("T")
_PATIENCE_S: Final = 2.0


class Waiter(Generic[T]):
    """A result that comes later. One coroutine awaits it."""

    __slots__ = ("_error", "_resume", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._resume: Callable[[], None] | None = None

    def set(self, value: T) -> None:
        """Sets the result, and goes on with the coroutine. Does nothing after the first time."""
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        """Has the coroutine go on with an error. Does nothing after the first time."""
        self._end(None, error)

    def _end(self, value: T | None, error: BaseException | None) -> None:
        if self.done:
            return
        self.done, self._value, self._error = True, value, error
        if self._resume is not None:
            resume, self._resume = self._resume, None
            resume()

    def __await__(self) -> Generator[Waiter[T], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def then(self, resume: Callable[[], None]) -> None:
        """Has `resume` called with the result. For `start`."""
        self._resume = resume


def start(task: Coroutine[Waiter[Any], None, None]) -> None:
    """Runs a coroutine until it awaits, and goes on with it when that has come. Its errors are its
    own: it must not raise.
    """

    def step() -> None:
        try:
            waiter = task.send(None)
        except StopIteration:
            return
        waiter.then(step)

    step()


class Thread:
    """A thread for calls that may block, one after the other."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """The result of `call()`, or its exception."""
        waiter: Waiter[T] = Waiter()

        def work() -> None:
            try:
                value = call()
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                failed = error  # the name in `except` ends with the block
                self._loop.call_from_thread(lambda: waiter.fail(failed))
            else:
                self._loop.call_from_thread(lambda: waiter.set(value))

        self._calls.put(work)
        return await waiter

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            work()

    def end(self) -> None:
        """Ends the thread after the calls that wait. One that blocks ends with the process."""
        self._calls.put(None)
        self._thread.join(_PATIENCE_S)
