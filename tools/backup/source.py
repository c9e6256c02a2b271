"""Where a backup comes from: a store that runs, or one that has stopped in order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ...store.errors import StoreError
from ...store.recovery.look import look

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...conf.settings import Settings
    from ...shm.control import Control
    from ...shm.progress import Progress
    from ...store.disk.paths import StoreFolders

_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.005


class Moment(msgspec.Struct, frozen=True):
    """The moment of a backup: its log ends at `progress.dispatched`. Below `final` no process
    writes to the log again. `store_time_ms` is the newest store timestamp.
    """

    progress: Progress
    final: int
    store_time_ms: int

    @property
    def end(self) -> int:
        return self.progress.dispatched


class Source(Protocol):
    """What a backup asks of its store."""

    def moment(self) -> Moment:
        """A moment now: all that was answered before is dispatched. Raises StoreError."""
        ...

    def check(self) -> None:
        """Raises StoreError if the store has not been the same since the last moment."""
        ...


class RunningStore:
    """A store that runs: `control` is its control block, `lives` says whether it still runs."""

    def __init__(self, control: Control, path: str, lives: Callable[[], bool]) -> None:
        self._control = control
        self._path = path
        self._lives = lives

    def moment(self) -> Moment:
        """Waits until reput has passed the log's present end."""
        control = self._control
        wanted = control.load("wrote")
        reached, since = control.load("dispatched"), time.monotonic()
        while control.load("dispatched") < wanted:
            time.sleep(_LOOK_S)
            self.check()
            if (now := control.load("dispatched")) != reached:
                reached, since = now, time.monotonic()
            elif time.monotonic() - since > _PATIENCE_S:
                raise StoreError(
                    f"{self._path}: nothing was dispatched for {_PATIENCE_S:.0f} s, and "
                    f"{wanted - reached} bytes of the log wait for it: see silo status"
                )
        flushed, progress = control.load("flushed"), control.progress()
        # Loaded afterwards, so that no record of the backup is newer.
        return Moment(progress, flushed, control.load("store_time_ms"))

    def check(self) -> None:
        """Raises StoreError if the store has ended."""
        if not self._lives():
            raise StoreError(f"the store {self._path} ended during its backup: make another one")


class StoppedStore:
    """A store that does not run; the caller holds its lock. Raises StoreError if it has not stopped
    in order, Corrupt if a start would refuse it.
    """

    def __init__(self, folders: StoreFolders, settings: Settings) -> None:
        plan = look(folders, settings)
        end, begin = plan.log.end.end, plan.dispatch.begin
        in_order = plan.run.clean and begin.dispatched == end and not plan.dispatch.anew
        if plan.log.cut_bytes or not (in_order or not plan.log.files):
            raise StoreError(
                f"{folders.root.path} has not stopped in order, and a start must repair its end "
                "first: start it (silo serve), and make the backup while it runs or after its stop"
            )
        self._moment = Moment(begin, end, plan.store_time_ms)

    def moment(self) -> Moment:
        """The end of the log."""
        return self._moment

    def check(self) -> None:
        """Its lock is held, so it is the same."""
