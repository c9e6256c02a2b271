"""`silo systemd`: what it writes, what it leaves alone, and what systemd says about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import SILO, sentence
from support.harness import PYTHON

#: systemd looks whether the command is there, not what it is.
COMMAND = "/usr/bin/env"
UNITS = ("silomq.socket", "silomq.service")


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: the address of a socket below it has at most 107 bytes."""
    return tmp_path_factory.mktemp("h")


def systemd(
    home: Path, *arguments: str, status: int = 0, code: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Runs `silo systemd` with this home."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    command = [*PYTHON, "-c", code, "systemd"] if code else [*SILO, "systemd"]
    done = subprocess.run(
        [*command, *arguments],
        env={**own, "HOME": str(home)}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def lines(done: subprocess.CompletedProcess[bytes]) -> list[tuple[str, ...]]:
    return [tuple(line.rsplit(maxsplit=1)) for line in done.stdout.decode().splitlines()]


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def analyze(*arguments: str) -> str:
    """What `systemd-analyze` says. Without it the test is skipped; in CI that is a failure."""
    if shutil.which("systemd-analyze") is None:
        why = "no systemd-analyze is installed (Debian: apt-get install systemd)"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    done = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stderr


def test_a_users_units_are_written_once(tmp_path: Path) -> None:
    config = tmp_path / ".config"
    paths = [config / "silomq/silomq.toml", *(config / "systemd/user" / name for name in UNITS)]
    done = systemd(tmp_path, "install", "--user")
    assert lines(done) == [("wrote", str(path)) for path in paths]
    said = done.stderr.decode()
    assert "systemctl --user enable --now silomq.socket silomq" in said
    store = tmp_path / ".local/share/silomq/store"
    service = paths[2].read_text()
    assert (
        f"ExecStart={sys.executable} -P -m silomq.cli.main serve --config {paths[0]} "
        f"\\\n    --store {store}\n"
    ) in service
    assert f"ListenSequentialPacket={store}/silomq.sock\n" in paths[1].read_text()
    written = tree(tmp_path)
    assert set(written) == {str(path.relative_to(tmp_path)) for path in paths}
    again = systemd(tmp_path, "install", "--user")
    assert lines(again) == [("unchanged", str(path)) for path in paths]
    assert tree(tmp_path) == written


def test_what_somebody_changed_stays(tmp_path: Path) -> None:
    systemd(tmp_path, "install", "--user")
    service = tmp_path / ".config/systemd/user/silomq.service"
    settings = tmp_path / ".config/silomq/silomq.toml"
    ours = service.read_text()
    service.write_text(ours.replace("RestartSec=2", "RestartSec=9"))
    settings.write_text("")
    before = tree(tmp_path)
    for verb in ("install", "uninstall"):
        done = systemd(tmp_path, verb, "--user", "--store", str(tmp_path / "other"), status=1)
        assert f"somebody has changed {service}" in done.stderr.decode()
        if verb == "install":
            sentence(done)
            assert tree(tmp_path) == before
    done = systemd(tmp_path, "install", "--user", "--force")
    assert ("kept", str(settings)) in lines(done)
    assert (service.read_text(), settings.read_text()) == (ours, "")


def test_other_options_change_what_nobody_changed(tmp_path: Path) -> None:
    systemd(tmp_path, "install", "--user")
    done = systemd(tmp_path, "install", "--user", "--store", str(tmp_path / "other"))
    assert [what for what, _ in lines(done)] == ["unchanged", "wrote", "wrote"]
    for name in UNITS:
        assert str(tmp_path / "other") in (tmp_path / ".config/systemd/user" / name).read_text()


def test_uninstall_leaves_the_settings(tmp_path: Path) -> None:
    systemd(tmp_path, "install", "--user")
    units = tmp_path / ".config/systemd/user"
    wants = units / "default.target.wants"
    wants.mkdir()
    (wants / "silomq.service").symlink_to(units / "silomq.service")
    done = systemd(tmp_path, "uninstall", "--user", status=1)
    assert "first run systemctl --user disable --now silomq.socket silomq" in sentence(done)
    (wants / "silomq.service").unlink()
    before = tree(tmp_path)
    would = systemd(tmp_path, "uninstall", "--user", "--dry-run")
    assert would.stdout.count(b"would remove") == 2
    assert tree(tmp_path) == before
    systemd(tmp_path, "uninstall", "--user")
    assert set(tree(tmp_path)) == {".config/silomq/silomq.toml"}
    assert lines(systemd(tmp_path, "uninstall", "--user")) == []


def test_a_broker_comes_with_the_store_if_it_is_asked_for(tmp_path: Path) -> None:
    done = systemd(tmp_path, "install", "--user", "--broker")
    assert "enable --now silomq.socket silomq silomq-broker" in done.stderr.decode()
    config = tmp_path / ".config"
    unit = (config / "systemd/user/silomq-broker.service").read_text()
    assert (
        f"ExecStart={sys.executable} -P -m silomq.cli.main broker "
        f"--config {config}/silomq/silomq-broker.toml \\\n"
        f"    --store {tmp_path}/.local/share/silomq/store\n"
    ) in unit
    settings = config / "silomq/silomq-broker.toml"
    settings.write_text("")
    assert ("kept", str(settings)) in lines(systemd(tmp_path, "install", "--user", "--broker"))
    systemd(tmp_path, "uninstall", "--user")
    assert set(tree(tmp_path)) == {
        ".config/silomq/silomq.toml",
        ".config/silomq/silomq-broker.toml",
    }


def test_the_machines_broker_may_read_the_store_and_no_more(tmp_path: Path) -> None:
    options = ("--system", "--broker", "--root", str(tmp_path), "--python", "/opt/s/bin/python")
    systemd(tmp_path, "install", *options, "--store", "/data/store")
    unit = tree(tmp_path)["etc/systemd/system/silomq-broker.service"].decode()
    assert "ReadOnlyPaths=/data/store\n" in unit
    assert "--store /data/store --open\n" in unit
    assert "--config /etc/silomq/silomq-broker.toml" in unit
    assert "etc/silomq/silomq-broker.toml" in tree(tmp_path)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = systemd(tmp_path, "install", "--user", "--dry-run")
    assert tree(tmp_path) == {}
    assert b"ListenSequentialPacket=" in done.stdout
    assert f"# {tmp_path}/.config/systemd/user/silomq.service\n".encode() in done.stdout


def test_the_machines_units_lie_below_a_root(tmp_path: Path) -> None:
    options = ("--system", "--root", str(tmp_path), "--python", "/opt/silomq/bin/python")
    systemd(tmp_path, "install", *options, "--store", "/data/store")
    written = {name: data.decode() for name, data in tree(tmp_path).items()}
    assert set(written) == {
        *("etc/sysusers.d/silomq.conf", "etc/tmpfiles.d/silomq.conf", "etc/silomq/silomq.toml"),
        *(f"etc/systemd/system/{name}" for name in UNITS),
    }
    service = written["etc/systemd/system/silomq.service"]
    assert (
        "ExecStart=/opt/silomq/bin/python -P -m silomq.cli.main serve "
        "--config /etc/silomq/silomq.toml --store /data/store\n"
    ) in service
    assert "ReadWritePaths=/data/store\n" in service
    assert "d /data/store 0750 silomq silomq -\n" in written["etc/tmpfiles.d/silomq.conf"]
    assert "\nu silomq " in written["etc/sysusers.d/silomq.conf"]
    systemd(tmp_path, "uninstall", *options, "--store", "/data/store")
    assert set(tree(tmp_path)) == {"etc/silomq/silomq.toml"}


AS_USER = (
    "import os, sys; os.geteuid = lambda: 1000\n"
    "from silomq.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_plain_user_may_not_write_the_machines(tmp_path: Path, verb: str) -> None:
    """The check comes first, and nothing is tried."""
    options = ("--system", "--python", "/opt/silomq/bin/python")
    done = systemd(tmp_path, verb, *options, status=1, code=AS_USER)
    assert "which only root may: use sudo, or --user" in sentence(done)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "say --user or --system"),
        (("--user", "--store", "/x y"), "a unit takes absolute paths of letters"),
        (("--user", "--store", "/x%h"), "a unit takes absolute paths of letters"),
        (("--user", "--store", "/x\nUser=root"), "a unit takes absolute paths of letters"),
        (("--user", "--python", "python3"), "a unit takes absolute paths of letters"),
        (("--user", "--store", "/" + "x" * 96), "its socket has at most 107 bytes"),
        (("--system", "--python", "/home/a/bin/python"), "the interpreter /home/a/bin/python lies"),
        (("--system", "--python", "/usr/bin/python3", "--store", "/tmp"), "--store /tmp lies"),
    ],
)
def test_what_a_unit_cannot_hold_is_refused(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    for verb in ("install", "uninstall"):
        done = systemd(tmp_path, verb, *options, "--dry-run", status=2)
        assert why in sentence(done)
    assert tree(tmp_path) == {}


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    options = ("--system", "--root", str(tmp_path), "--python", COMMAND)
    systemd(tmp_path, "install", "--broker", *options)
    names = (*UNITS, "silomq-broker.service")
    units = [str(tmp_path / "etc/systemd/system" / name) for name in names]
    assert "silomq" not in analyze("verify", *units)
    analyze("security", "--offline=true", "--threshold=10", units[1])


def test_systemd_finds_no_fault_with_a_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(tmp_path, "install", "--user", "--broker", "--python", COMMAND)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    names = (*UNITS, "silomq-broker.service")
    units = [str(tmp_path / ".config/systemd/user" / name) for name in names]
    assert "silomq" not in analyze("--user", "verify", *units)
