"""`silo serve` and `silo config`: starting, refusing, and what each refusal says."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
from support.commands import SILO, SMALL_OPTIONS, sentence, silo
from support.harness import PYTHON, WAIT_S, StoreProcess, connect, memory_of
from support.small_disks import MIB, small_disk
from support.small_settings import SHIPPED_LIMITS

from silomq import Corrupt, CorruptRange, IllegalMessage, PutMessageStatus, StoreError
from silomq.cli.shared.outcome import Exit, explain
from silomq.supervisor.__main__ import explain as supervisor_explain

NOBODY = 65534


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_runs_until_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    store = tmp_path / "store"
    with subprocess.Popen(
        [*SILO, "serve", "--store", str(store), *SMALL_OPTIONS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            connect(store, process).close()
            silo("send", "t", "x", store=store)
        finally:
            process.send_signal(number)
            out, log = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert out == b""
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events[-1] == "store stopped"
    assert memory_of(store) == []
    with StoreProcess(store, base=SHIPPED_LIMITS):
        assert silo("tail", "t", "--body-only", store=store).stdout == b"x\n"


@pytest.mark.parametrize("command", [["send", "t", "x"], ["tail", "t"], ["status"], ["topics"]])
def test_no_store_runs(tmp_path: Path, command: list[str]) -> None:
    said = sentence(silo(*command, store=tmp_path / "nowhere", status=1))
    assert "there is no such folder" in said
    assert f"silo serve --store {tmp_path / 'nowhere'}" in said
    assert "no store runs there" in sentence(silo(*command, store=tmp_path, status=1))


def test_a_second_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(store, base=SHIPPED_LIMITS):
        done = silo("serve", *SMALL_OPTIONS, store=store, status=4)
        said = sentence(done)
        assert str(store) in said
        assert "in use by another process" in said
        silo("send", "t", "still there", store=store)


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("max_topics=many", ("max_topics", "many", "1 to 1000000")),
        ("flushDiskType=SOMETIMES", ("flushDiskType", "SOMETIMES", "SYNC_FLUSH")),
        ("mapped_file_size_commit_log=1000", ("mapped_file_size_commit_log", "1000", "KiB")),
        ("max_topic=5", ("max_topic", "max_topics")),
        ("nothing", ("NAME=VALUE",)),
    ],
)
@pytest.mark.parametrize("command", ["serve", "config"])
def test_a_wrong_setting_is_named(
    tmp_path: Path, command: str, setting: str, parts: tuple[str, ...]
) -> None:
    store = tmp_path / "store"
    said = sentence(silo(command, "--set", setting, store=store, status=3))
    assert all(part in said for part in parts), said
    assert not store.exists()


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert str(missing) in sentence(silo("serve", "--config", str(missing), status=3))
    broken = tmp_path / "broken.toml"
    broken.write_text("max_topics = ")
    assert str(broken) in sentence(silo("serve", "--config", str(broken), status=3))


def test_config_says_where_a_value_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "silomq.toml"
    file.write_text("max_sessions = 7\nmax_topics = 8\n")
    done = subprocess.run(
        [*SILO, "config", "--config", str(file), "--set", "max_queues=2000", "--json"],
        env={**os.environ, "SILOMQ_MAX_TOPICS": "9", "SILOMQ_STORE_PATH": "/srv/silo"},
        capture_output=True,
        check=True,
    )
    found = {item["name"]: item for item in json.loads(done.stdout)}
    assert (found["max_sessions"]["value"], found["max_sessions"]["origin"]) == (7, str(file))
    assert found["max_topics"]["value"] == 9
    assert "SILOMQ_MAX_TOPICS" in found["max_topics"]["origin"]
    assert found["store_path"]["value"] == "/srv/silo"
    assert (found["max_queues"]["value"], found["max_queues"]["origin"]) == (2000, "--set")
    assert found["flush_disk_type"]["origin"] == "default"
    assert all(item["unit"] and item["range"] and item["reason"] for item in found.values())
    text = silo("config", "--set", "max_queues=2000").stdout.decode()
    assert "max_queues = 2000\n" in text
    assert all(f"{name} = " in text for name in found)


def test_templates_name_only_settings_that_exist() -> None:
    table = tomllib.loads(silo("config", "--template", "toml").stdout.decode())
    names = {item["name"] for item in json.loads(silo("config", "--json").stdout)}
    assert table.keys() <= names
    unit = silo("config", "--template", "systemd").stdout.decode()
    assert "Type=notify" in unit
    assert "silo serve" in unit


def test_defaults_of_command_and_settings_agree() -> None:
    found = json.loads(silo("config", "--json").stdout)
    assert next(item["value"] for item in found if item["name"] == "store_path") == "store"


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `silo` without privileges, which are dropped when all its modules are loaded."""
    code = (
        "import os, sys, silomq.supervisor.main, silomq.cli.running.serve\n"
        "import silomq.cli.commands, silomq.client.admin.admin, psutil\n"
        "from silomq.cli.main import main\n"
        f"if os.geteuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        f"sys.exit(main({arguments!r}))"
    )
    return subprocess.run(
        [*PYTHON, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


def test_a_folder_that_is_not_writable() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        store = folder / "store"
        store.mkdir(mode=0o555)
        done = as_nobody("serve", "--store", str(store), *SMALL_OPTIONS)
        assert done.returncode == 1
        said = sentence(done)
        assert f"cannot use {store} as a store" in said
        assert "Permission denied" in said or "not writable" in said
        assert list(store.iterdir()) == []
        folder.chmod(0o555)
        below = folder / "none"
        said = sentence(as_nobody("serve", "--store", str(below), *SMALL_OPTIONS))
        assert f"cannot use {below} as a store" in said
        folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_connect() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        store = Path(name) / "store"
        with StoreProcess(store, base=SHIPPED_LIMITS):
            for command in (["send", "t", "x"], ["tail", "t"], ["status"]):
                done = as_nobody(*command, "--store", str(store))
                assert done.returncode == 1
                assert f"user {NOBODY} may not" in sentence(done)


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
        stale.bind(str(store / "silomq.sock"))
    assert "no store runs there" in sentence(silo("status", store=store, status=1))
    with StoreProcess(store, base=SHIPPED_LIMITS):
        silo("send", "t", "x", store=store)
    assert not (store / "silomq.sock").exists()


def test_a_store_of_another_file_size_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(store, base=SHIPPED_LIMITS):
        silo("send", "t", "x", store=store)
    other = ("--set", "mapped_file_size_commit_log=16MiB")
    said = sentence(silo("serve", *other, store=store, status=3))
    assert "mapped_file_size_commit_log = 16777216 (from --set) is not allowed" in said
    assert memory_of(store) == []


def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(store, base=SHIPPED_LIMITS):
        pass
    (store / "silomq" / "layout").write_text("99\n")
    assert "newer SiloMQ" in sentence(silo("serve", *SMALL_OPTIONS, store=store, status=1))
    assert memory_of(store) == []


@pytest.mark.parametrize(
    ("mounted", "status", "parts"),
    [
        ("size=64k", Exit.DISK_FULL, ("no room for a segment of", "remount,size=")),
        ("size=4k", Exit.DISK_FULL, ("no room for", "free some there")),
        ("size=1m,ro", Exit.FAILED, ("Read-only file system", "mounted rw")),
    ],
)
def test_shared_memory_that_is_full_or_read_only_is_one_sentence(
    tmp_path: Path, mounted: str, status: Exit, parts: tuple[str, ...]
) -> None:
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("another /dev/shm needs the right to mount one")
    mount = f'mount -t tmpfs -o {mounted} none /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", *SILO, "serve", *SMALL_OPTIONS]
    done = subprocess.run(
        [*command, "--store", str(tmp_path / "store")], capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr
    said = sentence(done)
    assert all(part in said for part in ("/dev/shm", *parts)), said


@pytest.mark.parametrize(
    "command",
    [
        *(["serve"], ["status"], ["send", "t", "x"], ["tail", "t"], ["topics"], ["groups"]),
        *(["query", "offset", "t", "0", "0"], ["clean"]),
    ],
)
@pytest.mark.parametrize("inside", ["", "/in"])
def test_a_store_that_is_a_file_is_one_sentence(
    tmp_path: Path, command: list[str], inside: str
) -> None:
    (tmp_path / "file").write_text("")
    said = sentence(silo(*command, store=Path(f"{tmp_path}/file{inside}"), status=1))
    assert f"{tmp_path}/file{inside}" in said
    assert "is a file" in said


def test_a_full_disk_is_said_with_its_status(tmp_path: Path) -> None:
    """A file of the log fits once. Clean looks all the time, and sees no disk above its levels."""
    always = ["--set", "clean_resource_interval_ms=1"]
    with small_disk(tmp_path / "small", 15 * MIB) as folder:
        store = folder / "store"
        with subprocess.Popen(
            [*SILO, "serve", "--store", str(store), *SMALL_OPTIONS, *always],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            check_full_disk(store, process)
        assert process.returncode == 0


def check_full_disk(store: Path, process: subprocess.Popen[bytes]) -> None:
    """Two messages fill the file, the third one has no place."""
    try:
        connect(store, process).close()
        for _ in range(2):
            silo("send", "t", store=store, stdin=b"x" * 4_000_000)
        done = silo("send", "t", store=store, stdin=b"x" * 4_000_000, status=6)
        talk = done.stderr.decode().splitlines()
        assert len(talk) == 2
        assert "CREATE_MAPPED_FILE_FAILED" in talk[1]
        assert "No space left on device" in talk[1]
        done = silo("send", "t", "y", store=store, status=6)
        assert "No space left on device" in sentence(done)
        done = silo("status", store=store)
        assert b"No space left on device" in done.stderr
        assert re.search(rb"messages appended +2\b", done.stdout)
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


def supervisor(store: Path, *settings: str) -> tuple[int, str]:
    """Runs `python -m silomq.supervisor` to its end: (status, the one line that it says)."""
    done = subprocess.run(
        [*PYTHON, "-m", "silomq.supervisor", f"store_path={store}", *settings],
        capture_output=True,
        timeout=60,
        check=False,
    )
    text = done.stderr.decode()
    assert text.startswith("silomq.supervisor: "), text
    assert text.count("\n") == 1, text
    return done.returncode, text


def test_the_supervisor_alone_ends_as_serve_does(tmp_path: Path) -> None:
    store = tmp_path / "store"
    small = [pair for pair in SMALL_OPTIONS if pair != "--set"]
    for setting in ("max_topics=many", "max_topic=5", "nothing"):
        silo("serve", "--set", setting, store=store, status=3)
        status, said = supervisor(store, setting)
        assert status == 3
        assert setting.split("=")[0] in said
    with StoreProcess(store, base=SHIPPED_LIMITS):
        status, said = supervisor(store, *small)
        assert status == 4
        assert "in use by another process" in said
        silo("send", "t", "x", store=store)
    log = store / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:-1])
    status, said = supervisor(store, *small)
    assert status == 5
    assert "mapped_file_size_commit_log" in said
    assert "cannot use" in supervisor(log, *small)[1]
    assert memory_of(store) == []


def test_each_error_has_its_status() -> None:
    illegal = IllegalMessage(PutMessageStatus.SERVICE_NOT_AVAILABLE, "the store is stopping")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/silo/commitlog")
    for error, status, part in (
        (Corrupt("/srv/silo/commitlog/0", 17, "torn"), Exit.CORRUPT, "offset 17"),
        (CorruptRange(5, 9), Exit.CORRUPT, "from offset 5 to 9"),
        (full, Exit.DISK_FULL, "No space left on device (/srv/silo/commitlog)"),
        (illegal, Exit.FAILED, "SERVICE_NOT_AVAILABLE"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), Exit.FAILED, "Permission"),
        (ZeroDivisionError("division"), Exit.FAILED, "internal error: ZeroDivisionError"),
    ):
        assert explain(error)[0] == status
        assert part in explain(error)[1]
        if isinstance(error, StoreError | OSError):
            assert supervisor_explain(error) == explain(error)
