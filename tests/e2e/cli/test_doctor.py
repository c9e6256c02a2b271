"""`silo doctor` beside a store that runs, was stopped, was killed, or does not exist."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest
from support.commands import SILO, sentence, silo
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS, options

from silomq.shm import segments

SHM = Path("/dev/shm")


def examined(store: Path, *arguments: str, status: int = 0) -> dict[str, list[dict[str, str]]]:
    """Check -> its findings, as JSON has them."""
    done = silo("doctor", "--json", *arguments, store=store, status=status)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["problems"] == sum(one["level"] == "problem" for one in told["findings"])
    assert bool(told["problems"]) == bool(status)
    found: dict[str, list[dict[str, str]]] = {}
    for one in told["findings"]:
        assert one["what"]
        assert bool(one["advice"]) == (one["level"] != "ok"), one
        found.setdefault(one["check"], []).append(one)
    return found


def tree(store: Path) -> dict[str, tuple[int, int, int]]:
    """All that is in a folder: size, time of the last change, mode."""
    found = {}
    for path in (store, *sorted(store.rglob("*"))):
        about = path.lstat()
        found[str(path)] = about.st_size, about.st_ctime_ns, about.st_mode
    return found


def left_by(store: Path) -> list[str]:
    return segments.leftovers(segments.store_identity(store))


def test_before_the_first_start(tmp_path: Path) -> None:
    found = examined(tmp_path / "no store")
    assert "no store runs there" in found["store"][0]["what"]
    assert found["folder"][0]["level"] == "ok"
    assert not (tmp_path / "no store").exists()


def test_beside_a_running_store_and_after_its_stop(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", base=SHIPPED_LIMITS) as store:
        found = examined(store.path)
        assert "is running, pid" in found["store"][0]["what"]
        assert str(store.running.pid) in found["open files"][0]["what"]
        assert not any("this store" in one["what"] for one in found["leftovers"])
        mine = f"{store.path} runs"
        assert not any(mine in one["what"] for one in found["other stores"])
        other = examined(tmp_path / "other")
        assert any(mine in one["what"] for one in other["other stores"])
    before = tree(store.path)
    found = examined(store.path)
    assert found["store"][0]["what"].endswith("does not run")
    assert found["clock"][0]["what"].startswith(("not behind", "the store has recorded no"))
    assert tree(store.path) == before, "it has changed something"


def test_what_a_killed_store_left_is_named_and_stays(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", base=SHIPPED_LIMITS) as store:
        store.crash()
        left = left_by(store.path)
        assert left
        found = examined(store.path)
        (mine,) = (one for one in found["leftovers"] if "this store" in one["what"])
        assert f"{len(left)} objects" in mine["what"]
        assert mine["advice"].startswith("start the store")
        others = examined(tmp_path / "other")["leftovers"]
        (theirs,) = (one for one in others if left[-1].split("-")[1] in one["what"])
        assert theirs["level"] == "warning"
        assert left_by(store.path) == left, "it has removed something"
        store.start()
        assert not any("this store" in o["what"] for o in examined(store.path)["leftovers"])


def test_rights_that_let_others_in_are_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o755)
    folder.chmod(0o777)
    found = examined(folder, status=1)
    assert found["folder"][0]["level"] == "problem"
    assert found["folder"][0]["advice"] == f"chmod o-w {folder}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_another_user_are_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    (folder / "commitlog").mkdir(parents=True)
    stranger = folder / "commitlog" / f"{0:020d}"
    stranger.touch()
    os.chown(stranger, 12345, -1)
    found = examined(folder, status=1)
    assert str(stranger) in found["files"][0]["what"]


def test_a_limit_of_open_files_that_is_too_low(tmp_path: Path) -> None:
    command = f"ulimit -n 55; exec {' '.join(SILO)} doctor --json --store {tmp_path / 'store'}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["open files"]["level"] == "problem"
    assert "LimitNOFILE" in found["open files"]["advice"]


def test_who_listens_at_the_brokers_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = examined(tmp_path / "store", "--broker-port", str(port))
        assert f"pid {os.getpid()}" in found["broker port"][0]["what"]
    found = examined(tmp_path / "store", "--broker-port", str(port))
    assert found["broker port"][0]["what"] == f"{port} is free"


def test_a_store_that_is_too_large_for_shared_memory(tmp_path: Path) -> None:
    # A pool that no machine has.
    huge = ("--set", "transient_store_pool_enable=true", "--set", "transient_store_pool_size=64")
    size = os.statvfs(SHM).f_blocks * os.statvfs(SHM).f_frsize
    if size > 64 << 31:
        pytest.skip("this machine has room for the largest pool")
    found = examined(
        tmp_path / "store", *huge, "--set", f"mapped_file_size_commit_log={(2 << 30) - 4096}",
        status=1,
    )  # fmt: skip
    assert found["/dev/shm"][0]["level"] == "problem"


def test_the_lines_for_people(tmp_path: Path) -> None:
    done = silo("doctor", *options(SHIPPED_LIMITS), store=tmp_path / "a\x1bb")
    lines = done.stdout.decode().splitlines()
    assert all(line.split()[0] in {"ok", "warning", "problem"} for line in lines)
    assert "\x1b" not in done.stdout.decode()
    assert f"silo: {len(lines)} checks, problems: 0" in done.stderr.decode()


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    done = silo("doctor", "--set", "ring_size=7", store=tmp_path, status=3)
    assert "ring_size" in sentence(done)


def test_a_layout_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    (folder / "silomq").mkdir(parents=True)
    (folder / "silomq" / "layout").write_text("version = 99\n")
    found = examined(folder, status=1)
    assert "newer SiloMQ" in found["layout"][0]["what"]


@pytest.mark.parametrize("columns", [80, 140])
def test_lines_are_folded_for_a_terminal(tmp_path: Path, columns: int) -> None:
    """And are whole for programs."""
    ours, its = os.openpty()
    termios.tcsetwinsize(its, (40, columns))
    environ = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    place = ["--store", str(tmp_path / "store")]
    command = [*SILO, "doctor", *place]
    with subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env=environ) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while data := os.read(ours, 65536):
                shown += data
    os.close(ours)
    assert process.returncode in (0, 1)
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.startswith(" ") for line in lines) or columns > 80
    whole = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert not any(line.startswith(" ") for line in whole)
    assert max(map(len, whole)) > 80
