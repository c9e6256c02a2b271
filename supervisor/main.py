"""The supervisor's loop: starts the actors in order, watches and replaces them, and stops them in
order.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import setproctitle

from .. import __version__
from ..actors.actor import World
from ..conf.logging import configure, get_logger, tell_repeats
from ..conf.settings import Settings
from ..shm.control import ACTORS, ActorState, StoreState
from ..shm.history import HistoryWriter
from . import listener
from .broker import Broker
from .changes import Changes, RunningChange
from .child import Child
from .children import TICK_S, Children, GaveUp
from .closing import close_store
from .exporter import Exporter
from .first_words import say_first_words
from .handover import HandedStore, unpack_world
from .keeping import Keeper, Keeps
from .live_settings import LiveSettings, Reread, SettingsSource
from .new_code import NewCode, NotReplaced
from .notify import Notifier
from .prepare import prepare
from .processes import STOP_ORDER
from .replacing import Replacing
from .resuming import Kept, catch_up, starts_so_far
from .signalled import Signalled
from .soundness import Soundness
from .takeover import fill, pack_store

_SERVING = "accepting messages"


class Supervisor:
    """Runs one store until a signal ends it (`actors/signals.py`). `run` returns the exit status.

    `source` is where the settings are read again for a reload. `keeps_code` says why the code
    cannot be replaced, "" if it can.
    """

    #: The change of code by which this process got its store, and since when (monotonic s) nobody
    #: has done the supervisor's work.
    change: RunningChange | None = None
    since = 0.0

    def __init__(
        self,
        world: World,
        lock: int,
        source: SettingsSource,
        signalled: Signalled,
        *,
        notifier: Notifier,
        keeps_code: str = "",
        keeps: Keeps | None = None,
    ) -> None:
        self.world = world
        self.lock = lock
        self.signalled = signalled
        self.notifier = notifier
        self.keeps_code = keeps_code
        self.logger: Any = get_logger()
        self.changes = Changes()
        self.broker = Broker(world, self.changes)
        self.selector = selectors.DefaultSelector()
        self.keeper = Keeper(world, self.broker, notifier, keeps or Keeps())
        self.signal_fd, self.wakeup = signalled.wake_loop()
        self.children = Children(world, self.selector, self.logger, self._opened)
        self.exporter = Exporter(world, self.selector, self.logger)
        self.replacing = Replacing(self.children, self._turn, self._is_stopping)
        self.new_code = NewCode(
            *(self.children, self.replacing, self._turn, self._is_stopping),
            pack=self._pack,
            logger=self.logger,
        )
        self.live = LiveSettings(world, source, self.logger)
        self.state = world.control.own("state")
        self.beat_word = world.control.own_beat()
        self.history = HistoryWriter(world.metrics_memory, world.control, world.metrics)
        self.soundness = Soundness(world, notifier.watchdog_s or 0.0, self.children.policies)
        self.unsound: list[str] = []
        for end in (self.broker.from_append, self.broker.from_registry, self.signal_fd):
            self.selector.register(end, selectors.EVENT_READ)

    def _opened(self) -> list[int]:
        """The supervisor's own descriptors, which its children do not need."""
        own = (self.signal_fd, self.wakeup)
        others = (self.changes.fds(), self.new_code.fds(), self.exporter.opened())
        return [*own, *self.keeper.pages, *(fd for fds in others for fd in fds)]

    def _is_stopping(self) -> bool:
        return self.signalled.stop

    def run(self) -> int:
        """Runs the store until a signal ends it. The exit status: 0 after a stop; when an actor
        could not start, STORAGE_FULL if it found no disk space, BAD_FILE if it lacked a file, else
        1.
        """
        self.live.publish()
        return self._live(self._start_all)

    def _live(self, begin: Callable[[], None]) -> int:
        setproctitle.setproctitle(f"silomq[{self.world.store_name}] supervisor")
        status = 0
        try:
            begin()
            while not self.signalled.stop:
                self._turn(TICK_S)
                if self.signalled.hang_up:
                    self.signalled.hang_up = False
                    self._reload()
                elif (change := self.changes.next()) is not None:
                    self._make(change)
        except GaveUp as error:
            self.logger.critical("giving up", why=str(error))
            status = error.status
        finally:
            self._stop_all()
        return status

    # -- starting

    def _start_all(self) -> None:
        gc.collect()
        gc.freeze()  # or each child's garbage collector would write to, and copy, shared pages
        for name in ACTORS:
            self.children.spawn(name)
            while not self.children.is_ready(name):
                if self.signalled.stop:
                    return
                self.notifier.progress(f"waiting for {name}")
                self._turn(0.1)
        self.state.store(StoreState.RUNNING)
        self.notifier.ready(_SERVING)
        pids = {name: child.pid for name, child in self.children.running.items()}
        self.logger.info("store running", pids=pids)
        self.exporter.begin()

    # -- watching

    def _turn(self, patience_s: float) -> None:
        """One turn of the loop: events of children and mail, then starts that are due."""
        self.beat_word.store(time.monotonic_ns())
        patience_s = min(patience_s, self.children.patience_s(), self.exporter.patience_s())
        if self.notifier.watchdog_s:
            patience_s = min(patience_s, self.notifier.watchdog_s / 2)
        self._handle_events(patience_s)
        self.broker.send_waiting()
        self.history.tick()
        tell_repeats()
        self.children.turn()
        self.exporter.turn()
        self.keeper.turn()
        if self.state.load() == StoreState.RUNNING:
            self._prove_progress()

    def _handle_events(self, patience_s: float) -> None:
        for key, _ in self.selector.select(patience_s):
            if isinstance(key.data, Child):
                self.children.news(key.data, int(key.fd))
            elif key.data is self.exporter:
                self.exporter.news(key.fd)
            elif key.fd == self.signal_fd:
                os.read(self.signal_fd, 4096)
            else:
                self.broker.read(key.fileobj)  # type: ignore[arg-type] # the two mail sockets

    def _prove_progress(self) -> None:
        """Feeds the service manager's watchdog while the store is sound, and says why it is not."""
        if not self.notifier.watchdog_s:
            return
        unsound = self.soundness.unsound(self.children.running, time.monotonic())
        if not unsound:
            self.notifier.feed()
        if unsound != self.unsound:
            self.unsound = unsound
            if unsound:
                self.logger.error("no progress: the watchdog is not fed", actors=unsound)
                self.notifier.say(f"no progress: {', '.join(unsound)}")
            else:
                self.logger.info("progress again: the watchdog is fed")
                self.notifier.say(_SERVING)

    def _make(self, change: RunningChange) -> None:
        """Makes a change that a client has asked for."""
        try:
            if change.asked.what == "actor":
                self._restart(change)
            elif change.asked.what == "code":
                self._replace_code(change)
            else:
                found = self._reload()
                change.finish(
                    found.refused or found.said or "nothing has changed", done=not found.refused
                )
        except GaveUp as error:
            change.finish(f"the store ends: {error}", done=False)
            raise

    def _restart(self, change: RunningChange) -> None:
        name = change.asked.actor
        self.logger.info("replacing an actor, as asked", actor_name=name)
        if self.replacing.renew(name):
            stalls = {name: self.replacing.stalls_ms[name]}
            change.finish(f"{name} is replaced", done=True, stalls_ms=stalls)
        else:
            why = f"the new {name} ended before it served, and another one is started: see the log"
            change.finish(why, done=False)

    def _replace_code(self, change: RunningChange) -> None:
        """Replaces the code of all processes. If that succeeds, this process goes on elsewhere
        (`take_over`).
        """
        if self.keeps_code:
            change.finish(f"{self.keeps_code}; nothing was changed", done=False)
            return
        self.logger.info("replacing the code of all processes, as asked")
        self.notifier.say("replacing the code of all processes")
        self.exporter.stop()  # new code starts its own
        self.exporter.close()
        try:
            self.new_code.change_code(change)
        except NotReplaced as error:
            self.logger.error("the code was not replaced", why=str(error))
            self.notifier.say(f"the code was not replaced: {error}")
            change.finish(f"the code was not replaced: {error}", done=False)
            self.exporter.begin()

    def _reload(self) -> Reread:
        """Reads the settings again, and tells the service manager what came of it."""
        before = self.world.settings
        self.notifier.reloading("reading the settings again")
        found = self.live.read()
        self.children.set_policies()
        for number, name in enumerate(found.replace):
            if self.replacing.renew(name):
                continue
            self.live.use(before)
            why = f"{name} does not start with the new settings: nothing changes; see the log"
            self.logger.error(
                "an actor does not start with the new settings: nothing changes",
                actor_name=name,
                changed=found.changed,
            )
            for again in found.replace[: number + 1]:
                self.replacing.renew(again)
            found = Reread(refused=why)
            break
        self.exporter.follow()
        self.notifier.ready(found.refused or found.said or _SERVING)
        return found

    # -- a change of code

    def _pack(self, change: RunningChange) -> tuple[HandedStore, list[int]]:
        """All that this supervisor has, for the one that goes on in its place."""
        return pack_store(
            *(self.children, self.broker, self.live.source, self.signalled, change),
            lock=self.lock,
            keeps_code=self.keeps_code,
            stalls_ms=dict(self.replacing.stalls_ms),
            kept=self.keeper.pages,
        )

    @classmethod
    def take_over(cls, handed: HandedStore, fds: Mapping[int, int]) -> Self:
        """The supervisor of a running store, in a process that got its state. It has done nothing
        yet. Raises SettingError, StoreError, OSError.
        """
        world = unpack_world(handed.world, fds)
        world.take_role("supervisor")
        signalled = Signalled(hang_up_stops=handed.hang_up_stops)
        signalled.hang_up |= handed.hang_up
        found = cls(
            *(world, fds[handed.lock], handed.source, signalled),
            notifier=Notifier(),
            keeps_code=handed.keeps_code,
            keeps=Keeps.handed([fds[page] for page in handed.kept]),
        )
        found.change = fill(found.children, found.broker, handed, fds)
        found.replacing.stalls_ms.update(handed.stalls_ms)
        found.since = handed.since
        return found

    def go_on(self) -> int:
        """Runs the store that `take_over` took, as `run` does."""
        gc.collect()
        gc.freeze()
        self.live.publish()
        return self._live(self._end_change_of_code)

    def _end_change_of_code(self) -> None:
        """The first turn of new code: the change of code is over."""
        assert self.change is not None, "only a change of code hands a store over"
        for name in ACTORS:
            if name not in self.children.running:
                self.children.due.setdefault(name, time.monotonic())
        self.exporter.begin()
        self._turn(0.0)
        stalls_ms = self.replacing.stalls_ms
        stalls_ms["supervisor"] = (time.monotonic() - self.since) * 1000
        self.notifier.say(_SERVING)
        self.logger.info("all processes run new code", release=__version__, stalls_ms=stalls_ms)
        self.change.finish(
            f"all processes run release {__version__}", done=True, stalls_ms=stalls_ms
        )
        self.change = None

    # -- stopping

    def _stop_all(self) -> None:
        """Stops the actors in order, each after it has finished its work. Then removes its socket,
        the shared memory (but for a pool whose bytes could not be written) and, if all is durable,
        `abort` and unused log files.
        """
        self.signalled.stop = self.children.stopping = True
        self.children.due.clear()
        self.changes.end()
        self.exporter.stop()
        within_s = self.world.settings.stop_timeout_ms / 1000
        self.notifier.stopping(within_s)
        self.state.store(StoreState.DRAINING)
        deadline = time.monotonic() + within_s
        clean = True
        for name in STOP_ORDER:
            child = self.children.running.get(name)
            if child is not None:
                clean &= self._stop_one(child, deadline)
        self.state.store(StoreState.STOPPED)
        self.exporter.close()
        self.keeper.end()
        close_store(self.world, self.broker, self.lock, clean=clean)

    def _stop_one(self, child: Child, deadline: float) -> bool:
        """Ends an actor by SIGTERM, and by SIGKILL at the deadline. Whether it ended by itself."""
        self.children.note(child.name, child.pid, ActorState.STOPPING)
        signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
        while self.children.running.get(child.name) is child:
            left = deadline - time.monotonic()
            if left <= 0:
                self.logger.error("actor does not stop, killing it", frozen=child.name)
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                self.children.reap(child)
                return False
            self._handle_events(left)
        return True


def serve(
    settings: Settings,
    source: SettingsSource,
    claimed: Callable[[], None] = lambda: None,
    keeps_code: str = "",
) -> int:
    """Runs a store in this process until SIGTERM or SIGINT. Returns the exit status. `source` is
    where the settings are read again for a reload. `claimed` is called once the store is this
    process's own. `keeps_code` says why the code of the store cannot be replaced, "" if it can.

    Raises StoreError, Corrupt and OSError when the store cannot start.
    """
    configure(settings.store_path.name, "supervisor", settings.log_level, settings.log_format)
    notifier = Notifier()
    signalled = Signalled()
    kept = Kept(listener.passed())
    world, lock = prepare(settings, notifier.progress, kept)
    configure(world.store_name, "supervisor", settings.log_level, settings.log_format)
    if kept.state is None:
        say_first_words(world, get_logger())
    supervisor = Supervisor(
        *(world, lock, source, signalled),
        notifier=notifier,
        keeps_code=keeps_code,
        keeps=kept.keeps(),
    )
    claimed()
    if kept.state is not None:
        supervisor.children.starts.update(starts_so_far(world.control))
        catch_up(supervisor.broker)
        signalled.hang_up = True  # settings may have changed meanwhile
    return supervisor.run()
