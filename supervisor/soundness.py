"""Whether the store makes progress: the proof that the service manager's watchdog is fed with.

The supervisor's own loop proves nothing. The store is sound while

- every process answers: it has beaten within the last half of the watchdog's time. An actor that is
  stopped, or hangs, does not. The supervisor replaces it after `heartbeat_timeout_ms`, usually long
  before the watchdog bites;
- no actor is in a crash loop (`RestartPolicy.loops`): each of its lives is too short to answer;
- the log's followers follow: while there is more for commit, flush or reput to do, their watermark
  moves.

Three states are known, told by `silo status`, and not mended by a restart of the service. They do
not count as unsound: a full disk, a failed sync, and an actor that lacks a file. An actor that
waits for the disk (state D) gets as long as it gets before it is killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ..actors.actor import World
from ..shm._words import Word
from ..shm.control import ACTORS, failed_actors
from .child import DISK_PATIENCE, Child, waits_for_disk
from .restarts import RestartPolicy

#: Processes beat once a second when they are idle. Silence of less than this (s) says nothing.
_LEAST_S: Final = 2.5


class _Follower(msgspec.Struct):
    """A process whose watermark `own` follows the word `leader`. It may rest for `patience_s`."""

    name: str
    own: Word
    leader: Word
    patience_s: float
    goal: int = 0
    seen: int = -1
    since: float = 0.0  # when it last moved or had nothing to do, monotonic s

    def rests(self, now: float) -> bool:
        """Whether it has not moved for too long, though there is work."""
        at = self.own.load()
        if at >= self.goal or at != self.seen:
            self.goal, self.seen, self.since = self.leader.load(), at, now
        return now - self.since > self.patience_s


class Soundness:
    """Judges the processes of a store. `silent_s` is how long one may be silent, at least 2.5 s."""

    def __init__(
        self, world: World, silent_s: float, policies: Mapping[str, RestartPolicy]
    ) -> None:
        self._silent_s = max(silent_s, _LEAST_S)
        self._world = world
        self._policies = policies
        settings, word = world.settings, world.control.word
        slowest_ms = {
            "commit": settings.commit_commit_log_thorough_interval_ms,
            "flush": settings.flush_commit_log_thorough_interval_ms,
            "reput": 0,
        }
        pairs = {
            "flush": ("flushed", world.filed),
            "reput": ("dispatched", world.dispatch_limit),
            **({"commit": ("committed", "wrote")} if world.pool is not None else {}),
        }
        self._followers = [
            _Follower(name, word(own), word(leader), 2 * self._silent_s + slowest_ms[name] / 1000)
            for name, (own, leader) in pairs.items()
        ]

    def unsound(self, children: Mapping[str, Child], now: float) -> list[str]:
        """The processes that do not answer, or do not work, at the monotonic time `now`."""
        excused = set(failed_actors(self._world.control.load("failed")))
        found = [
            name
            for name in ACTORS
            if name not in excused and not self._answers(name, children.get(name), now)
        ]
        idle = [follower.name for follower in self._followers if follower.rests(now)]
        if self._world.control.load("disk_flags") or self._world.control.load("flush_error"):
            return found
        return found + [name for name in idle if name not in (*found, *excused)]

    def _answers(self, name: str, child: Child | None, now: float) -> bool:
        policy = self._policies[name]
        if child is None:
            return not policy.loops
        if policy.loops and not (child.ready and now - child.started > _LEAST_S):
            return False
        silent = now - max(self._world.control.beat(name).load() / 1e9, child.started)
        if silent <= self._silent_s:
            return True
        limit_s = self._world.settings.heartbeat_timeout_ms / 1000 * DISK_PATIENCE
        return silent <= limit_s and waits_for_disk(child.pid)
