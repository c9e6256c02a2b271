"""The systemd unit: systemd understands it, and its sandbox stays shut."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import silomq.conf
from silomq.conf.settings import Settings

UNIT = Path(silomq.conf.__path__[0]) / "silomq.service"
#: What systemd-analyze gives it is 0.8; an option that is lost costs 0.1 or more.
EXPOSURE_LIMIT = 1.0

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed here"
)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments, str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def option(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@needs_systemd
def test_systemd_understands_it() -> None:
    run = analyze("verify", "--man=no")
    complaints = [line for line in run.stderr.splitlines() if "silomq.service" in line]
    assert run.returncode == 0, run.stderr
    assert not complaints


@needs_systemd
def test_the_sandbox_stays_shut() -> None:
    run = analyze("security", "--offline=yes", "--no-pager")
    if "Unknown" in run.stderr or "unrecognized" in run.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit file offline (it needs 250)")
    found = re.search(r"Overall exposure level for silomq\.service: ([0-9.]+)", run.stdout)
    assert found, run.stdout + run.stderr
    assert float(found[1]) <= EXPOSURE_LIMIT


def test_what_the_store_relies_on() -> None:
    assert option("Type") == ["notify"]
    assert option("RestartPreventExitStatus") == ["3 4 5"]
    assert option("PrivateUsers") == ["no"]
    assert option("LimitCORE") == ["0"]
    assert option("RemoveIPC") == ["no"]
    assert option("LimitMEMLOCK")
    assert option("WatchdogSec")


def test_systemd_waits_longer_than_the_store() -> None:
    (timeout,) = option("TimeoutStopSec")
    assert int(timeout) * 1000 > Settings().stop_timeout_ms


def test_every_option_stands_once_or_has_a_reason() -> None:
    names = re.findall(r"^(\w+)=", UNIT.read_text(), re.MULTILINE)
    assert {name for name in names if names.count(name) > 1} <= {"SystemCallFilter"}
