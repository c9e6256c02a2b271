"""Methods that threads call one at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class OfAProcess(Protocol):
    """What is open in one process only."""

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child."""


class Locked(Protocol):
    """An object whose methods share a lock, and a store that is open."""

    _lock: threading.RLock

    @property
    def _store(self) -> OfAProcess: ...


_Self = TypeVar("_Self", bound=Locked)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def in_turn(
    method: Callable[Concatenate[_Self, _P], _T],
) -> Callable[Concatenate[_Self, _P], _T]:
    """Makes threads take turns, because the open queues and mapped files are shared. A forked
    child must not wait for the lock: a thread of its parent may have held it.
    """

    @functools.wraps(method)
    def locked(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._store.check_process()
        with self._lock:
            return method(self, *args, **kwargs)

    return locked
