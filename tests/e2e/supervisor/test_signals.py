"""What signals do to a running store: SIGHUP reads the logging settings again, a closed terminal
stops the store cleanly, and no signal ends it uncleanly.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import SILO, SMALL_OPTIONS
from support.configured_stores import ConfiguredStore
from support.harness import LONG, WAIT_S, StoreProcess, connect, eventually, lives, memory_of
from support.small_settings import SHIPPED_LIMITS

from silomq import Producer
from silomq.actors.signals import IGNORED
from silomq.conf.logging import from_word
from silomq.shm.control import ACTORS
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from pathlib import Path

HARMLESS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, *IGNORED)


def events(store: StoreProcess) -> list[dict[str, Any]]:
    # A process that dumps its stacks writes parts of lines, and another may write its line between.
    lines = re.findall(r'\{"timestamp".*\}', store.log_path.read_text())
    return [json.loads(line) for line in lines]


def said(store: StoreProcess, event: str) -> list[dict[str, Any]]:
    return [found for found in events(store) if found["event"] == event]


def test_sighup_reads_the_logging_settings_again(tmp_path: Path) -> None:
    store = ConfiguredStore(tmp_path / "store", base=SHIPPED_LIMITS)
    store.file.write_text('log_level = "error"\n')
    with store, Producer(store.path) as producer:
        pids = store.pids()
        assert events(store) == []
        store.file.write_text('log_level = "warning"\nmax_message_size = 2000\n')
        store.running.send_signal(signal.SIGHUP)
        eventually(lambda: from_word(store.control.load("logging"))[0] == "warning", "it is read")
        # Actors that live use the new level, and so do those that are started later.
        store.replace("reput")
        assert [found["died"] for found in said(store, "actor died, replacing it")] == ["reput"]
        store.file.write_text('log_level = "info"\nmax_message_size = 2000\n')
        store.running.send_signal(signal.SIGHUP)
        eventually(lambda: said(store, "read the settings again"), "it is read again")
        (found,) = said(store, "read the settings again")
        assert (found["log_level"], found["need_a_restart"]) == ("info", ["max_message_size"])
        producer.send("t", b"x")
        after = {actor: pid for actor, pid in store.pids().items() if actor != "reput"}
        assert after == {actor: pid for actor, pid in pids.items() if actor != "reput"}


def senseless_packet(store: StoreProcess) -> None:
    """Makes the registry log a warning: it hangs up on whoever sends such a packet."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.settimeout(WAIT_S)
        end.connect(str(store.path / SOCKET))
        end.send(b"no request")
        with contextlib.suppress(ConnectionResetError):
            while end.recv(65_536):
                pass


def test_an_actor_uses_the_level_that_it_is_told(tmp_path: Path) -> None:
    store = ConfiguredStore(tmp_path / "store", base=SHIPPED_LIMITS)
    store.file.write_text('log_level = "error"\n')
    told = "makes no sense"
    with store, Producer(store.path) as producer:
        before = len(events(store))
        senseless_packet(store)
        assert told not in store.log(), "a warning is below the level"
        store.file.write_text('log_format = "console"\n')
        store.running.send_signal(signal.SIGHUP)
        eventually(lambda: from_word(store.control.load("logging")) == ("info", "console"), "read")
        for actor in ("append", "registry"):
            await_beats(store, actor)
        producer.send("t", b"x")
        senseless_packet(store)
        eventually(lambda: told in store.log(), "the registry uses the new level")
        eventually(lambda: "read the settings again" in store.log(), "the supervisor too")
        assert len(events(store)) == before  # no line of JSON any more


def await_beats(store: StoreProcess, actor: str) -> None:
    """Waits until an actor has looked at the settings: it does so behind a heartbeat, so that a
    second heartbeat shows it.
    """
    for _ in range(2):
        beat = store.control.beat(actor).load()
        eventually(lambda: store.control.beat(actor).load() > beat, f"{actor} beats")  # noqa: B023


@pytest.mark.parametrize("text", ['log_level = "loud"\n', "no TOML", 'max_sessions = "many"\n'])
def test_bad_settings_are_told_and_change_nothing(tmp_path: Path, text: str) -> None:
    store = ConfiguredStore(tmp_path / "store", base=SHIPPED_LIMITS)
    store.file.write_text("")
    with store:
        store.file.write_text(text)
        store.running.send_signal(signal.SIGHUP)
        what = "cannot read the settings again: nothing changes"
        eventually(lambda: said(store, what), "it is told")
        assert "not allowed" in said(store, what)[0]["error"]
        store.file.unlink()
        store.running.send_signal(signal.SIGHUP)
        eventually(lambda: len(said(store, what)) == 2, "a missing file as well")
        assert from_word(store.control.load("logging"))[0] == "info"
        with Producer(store.path) as producer:
            producer.send("t", b"x")


def test_no_signal_but_those_that_stop_it_ends_the_store_or_an_actor(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        pids = store.pids()
        for number in HARMLESS:
            for pid in pids.values():
                os.kill(pid, number)
            if number not in (signal.SIGINT, signal.SIGQUIT):
                store.running.send_signal(number)
        for actor in ACTORS:
            beat = store.control.beat(actor).load()
            eventually(lambda: store.control.beat(actor).load() > beat, "it lives")  # noqa: B023
        assert store.pids() == pids
        assert store.running.poll() is None
        assert len(said(store, "read the settings again")) == 1
        producer.send("t", b"x")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stop_is_clean(tmp_path: Path, number: signal.Signals) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            producer.send("t", b"x")
        store.running.send_signal(number)
        assert store.running.wait(WAIT_S) == 0
        assert said(store, "store stopped")[0]["clean"]


def test_a_sigterm_to_the_whole_group_is_a_clean_stop(tmp_path: Path) -> None:
    """As `timeout` sends it. The producer gets an answer to everything that it has sent."""
    store = tmp_path / "store"
    for _ in range(3):
        command = [*SILO, "serve", "--store", str(store), *SMALL_OPTIONS]
        with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
            connect(store, process).close()
            with Producer(store) as producer:
                sent = [producer.send_async("t", b"x") for _ in range(500)]
                os.killpg(process.pid, signal.SIGTERM)
                _, log = process.communicate(timeout=WAIT_S)
                assert process.returncode == 0
                assert json.loads(log.splitlines()[-1])["clean"], log
                assert len([future.exception() for future in sent]) == len(sent)
    assert memory_of(store) == []


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([ACTORS], id="all at once"),
        pytest.param([(actor,) for actor in ACTORS], marks=LONG, id="each"),
    ],
)
def test_an_actor_that_is_told_to_end_is_replaced(
    tmp_path: Path, groups: list[tuple[str, ...]]
) -> None:
    with StoreProcess(tmp_path / "store") as store, Producer(store.path, timeout=10.0) as producer:
        for actors in groups:
            pids = {actor: store.kill(actor, signal.SIGTERM) for actor in actors}
            for actor, pid in pids.items():
                store.await_successor(actor, pid)
            producer.send("t", b"x")


def on_a_terminal(store: Path, log: Path, *before: str) -> tuple[int, int]:
    """`silo serve` as the shell of a new terminal would run it: (its pid, the terminal)."""
    command = [*before, *SILO, "serve", "--store", str(store), *SMALL_OPTIONS]
    pid, master = pty.fork()
    if pid == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)  # or nohup would make a file
        os.dup2(out, 2)
        os.execvp(command[0], command)
    return pid, master


@pytest.mark.parametrize("nohup", [False, True])
def test_closing_the_terminal_stops_the_store_cleanly_or_not_at_all(
    tmp_path: Path, *, nohup: bool
) -> None:
    """It stops it, unless nohup says otherwise: then it is a reason to read the settings."""
    store, log = tmp_path / "store", tmp_path / "log"
    pid, master = on_a_terminal(store, log, *(["nohup"] if nohup else []))
    pidfd = os.pidfd_open(pid)
    try:
        eventually(lambda: "store running" in log.read_text() if log.exists() else "", "it runs")
        os.close(master)
        if nohup:
            eventually(lambda: "read the settings again" in log.read_text(), "it goes on")
            with Producer(store) as producer:
                producer.send("t", b"x")
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, log.read_text()
        last = json.loads(log.read_text().splitlines()[-1])
        assert (last["event"], last["clean"]) == ("store stopped", True)
        assert memory_of(store) == []
    finally:
        os.close(pidfd)
        if lives(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_store_that_was_halted_as_a_whole_goes_on(tmp_path: Path) -> None:
    """Ctrl-Z and `fg`: no process is taken for a frozen one."""
    with StoreProcess(tmp_path / "store", heartbeat_timeout_ms=1500) as store:
        connect(store.path, store.running).close()
        pids = store.pids()
        for pid in store.family():
            os.kill(pid, signal.SIGSTOP)
        now = max(store.control.beat(actor).load() for actor in ACTORS)
        beat = store.control.beat("supervisor")
        eventually(lambda: time.monotonic_ns() - now > 2_500_000_000, "longer than allowed")
        os.kill(store.running.pid, signal.SIGCONT)
        seen = beat.load()
        eventually(lambda: beat.load() > seen, "the supervisor goes on first")
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
        with Producer(store.path, timeout=10.0) as producer:
            producer.send("t", b"x")
        assert store.pids() == pids
