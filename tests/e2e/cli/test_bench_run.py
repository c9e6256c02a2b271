"""`silo bench run`, `list`, `limits`: real stores and workers; figures are not looked at, only that
each is there. Every test sees that no process and no file of it stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import LONG, PYTHON

from silomq.bench.harness.results.model import Result, read
from silomq.bench.harness.run.catalog import targets
from silomq.bench.harness.run.live import Live
from silomq.bench.harness.run.measure import measure
from silomq.bench.harness.targets.processes import ServerFailed
from silomq.bench.harness.workload.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.bench.harness.results.model import Run

    Smoke = tuple[subprocess.CompletedProcess[str], Path]

pytestmark = pytest.mark.timeout(240)
SMALL = ("duration=1", "warm_up=1", "store.file_size=4MiB")
_WAIT_S = 120.0
#: Those of the machine; one of them needs two cores.
LIMITS = 7 + (len(os.sched_getaffinity(0)) >= 2)


def assert_nothing_stays(folder: Path) -> None:
    """All that was started below `folder` has ended, and its folders are gone."""
    left = [
        one.info["cmdline"]
        for one in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in one.info["cmdline"] or ())
    ]
    assert left == []
    assert [path for path in folder.iterdir() if path.is_dir()] == []


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    yield
    assert_nothing_stays(tmp_path)


def command(*words: str) -> list[str]:
    return [*PYTHON, "-m", "silomq.cli.main", "bench", *words]


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=_WAIT_S, check=False, cwd=folder
    )


def measured(folder: Path, *changes: str, target: str = "silomq", name: str = "smoke") -> Run:
    """A run without the limits of the machine."""
    plan = load(name, [*SMALL, *changes])
    (step,) = plan.steps
    rate = step.workload.producers.rate.fixed or 0.0
    with Live() as live:
        return measure(step, targets()[target], folder, rate, live=live, number=1).run


def total(run: Run, column: str) -> float:
    """Of all seconds, the warm-up's too."""
    return sum(value or 0 for value in run.series.columns[column])


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """What the smoke workload said, and its result: one run for all tests that look at it."""
    folder = tmp_path_factory.mktemp("smoke")
    done = bench(folder, "run", "smoke", "--set", "duration=2", "--output", "result.json")
    assert_nothing_stays(folder)
    return done, folder / "result.json"


def test_the_smoke_workload_and_its_result(smoke: Smoke) -> None:
    done, result = smoke
    assert done.returncode == 0, done.stderr
    assert "written to result.json" in done.stderr
    assert "SiloMQ" in done.stdout
    found = read(result.read_bytes())
    _check_result(found)
    (run,) = found.runs
    assert (run.errors, run.lost, run.doubled) == (0, 0, 0)
    # A message that was sent in the warm-up may be read in the measured part.
    assert total(run, "consume_rate") == total(run, "publish_rate")
    # Two seconds at 2,000 a second; what was late counts too.
    assert 4000 <= run.sent + 50 <= 6050
    assert run.latency["publish"].count == run.sent
    assert run.latency["end_to_end"].count == run.consumed
    assert load(str(result)).workload.duration == pytest.approx(2)


def test_a_result_becomes_a_page_and_is_compared(smoke: Smoke, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(smoke[1].read_bytes())
    assert bench(tmp_path, "report", "result.json").returncode == 0
    assert (tmp_path / "result.html").read_text().lower().startswith("<!doctype html>")
    done = bench(tmp_path, "compare", "result.json", "result.json")
    assert done.returncode == 0, done.stderr
    assert bench(tmp_path, "compare", "result.json").returncode == 2


def _check_result(found: Result) -> None:
    assert found.name == "smoke"
    assert found.workload["producers"]["rate"] == "2000"
    assert len(found.limits) == LIMITS
    assert all(min(one.samples) > 0 for one in found.limits)
    assert found.server.name == "silomq"
    assert found.server.clients
    columns = found.runs[0].series.columns
    wanted = {"publish_rate", "consume_rate", "backlog", "publish_p999", "end_to_end_p50"}
    wanted |= {"page_cache", "cpu.append", "memory.append", "files.registry"}
    assert wanted <= set(columns)
    length = len(found.runs[0].series.time)
    assert {len(values) for values in columns.values()} == {length}
    assert any(columns["files.registry"])


def test_ctrl_c_ends_it_with_what_was_measured(tmp_path: Path) -> None:
    words = ("run", "smoke", "--runs", "3", "--set", "duration=60", "--set", "warm_up=0")
    with subprocess.Popen(
        command(*words, "--output", "result.json"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        _await(lambda: any(tmp_path.glob("silomq-bench-*/numbers")))
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 130, err
    assert "ended before its time" in out
    found = read((tmp_path / "result.json").read_bytes())
    assert found.interrupted
    (run,) = found.runs
    assert run.sent > 0
    assert len(run.series.time) < 60


def _await(true: Any) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    run = measured(tmp_path, "duration=9", "producers.rate=1000", name="kill-one-actor-each-second")
    assert (run.errors, run.lost, run.doubled) == (0, 0, 0)
    assert total(run, "consume_rate") == total(run, "publish_rate")
    assert len(run.faults) >= 7
    names = {fault.what for fault in run.faults}
    assert {"kill append", "kill registry", "kill reput"} <= names
    assert "kill supervisor" not in names
    assert all(1 <= fault.at_s == fault.until_s for fault in run.faults)


def test_stops_and_pauses_end(tmp_path: Path) -> None:
    faults = (
        "faults=[{kind='stop', what='append', at=0.2, lasts=0.5},"
        "{kind='pause-consumers', at=0.5, lasts=0.8}]"
    )
    run = measured(tmp_path, "duration=2", faults)
    assert (run.errors, run.lost, run.doubled) == (0, 0, 0)
    assert [fault.what for fault in run.faults] == ["stop append", "pause the consumers"]
    # An open loop: what was due while append stood still waited for up to half a second.
    assert run.latency["publish"].percentiles["100"] > 400_000
    assert run.latency["end_to_end"].percentiles["100"] > 600_000


@pytest.mark.parametrize(
    "changes",
    [
        ("producers.call=oneway", "consumers.call=listen", "topics.count=3"),
        ("producers.call=async", "consumers.call=iterate", "store.flush=sync"),
        ("producers.call=batch", "producers.processes=2", "consumers.call=arrow"),
        ("producers.rate=max", "consumers.call=pop", "store.pool=true"),
        ("consumers.acknowledge=each", "consumers.groups=2", "consumers.processes=2"),
    ],
    ids=" ".join,
)
def test_each_way_to_send_and_to_read(changes: tuple[str, ...], tmp_path: Path) -> None:
    run = measured(tmp_path, *changes)
    groups = 2 if "consumers.groups=2" in changes else 1
    assert (run.errors, run.first_error, run.lost, run.doubled) == (0, "", 0, 0)
    assert run.sent > 0
    assert total(run, "consume_rate") == groups * total(run, "publish_rate")


@pytest.mark.parametrize(
    "call", ["oneway", "async", *(pytest.param(call, marks=LONG) for call in ("send", "batch"))]
)
def test_a_broker_by_its_protocol(call: str, tmp_path: Path) -> None:
    run = measured(tmp_path, f"producers.call={call}", target="silomq-broker")
    assert (run.errors, run.first_error, run.lost, run.doubled) == (0, "", 0, 0)
    assert run.sent > 0
    assert total(run, "consume_rate") == total(run, "publish_rate")
    assert any(run.series.columns["cpu.broker"])


def test_a_backlog_is_sent_then_read(tmp_path: Path) -> None:
    run = measured(
        tmp_path,
        *("warm_up=0", "producers.call=batch", "producers.rate=max", "producers.messages=5000"),
        *("consumers.after=true", "consumers.cold=true"),
    )
    assert (run.sent, run.consumed, run.lost, run.doubled) == (5000, 5000, 0, 0)
    assert run.dispatch_rate > 0
    assert max(v or 0 for v in run.series.columns["backlog"]) > 0
    # The store was started anew: hardly any page of its files was mapped by a process meanwhile.
    assert run.cached is not None
    assert run.cached < 0.7
    assert "end_to_end" not in run.latency


def test_a_share_of_the_maximum(tmp_path: Path) -> None:
    words = ("--set", "producers.rate=1%", "--set", "duration=1", "--set", "warm_up=0")
    done = bench(tmp_path, "run", "smoke", *words, "--output", "result.json")
    assert done.returncode == 0, done.stderr
    assert "the maximum of silomq, of which 1% are wanted" in done.stderr
    (run,) = read((tmp_path / "result.json").read_bytes()).runs
    assert run.wanted_rate > 0
    assert abs(run.sent - run.wanted_rate) <= 2


def test_a_target_that_dies_ends_the_run(tmp_path: Path) -> None:
    words = ("run", "smoke", "--set", "duration=60", "--set", "warm_up=0")
    with subprocess.Popen(
        command(*words), cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        _await(lambda: any(tmp_path.glob("silomq-bench-*/numbers")))
        time.sleep(1)
        for one in psutil.Process(process.pid).children():
            with contextlib.suppress(psutil.Error):
                if "_client" not in " ".join(one.cmdline()):  # no worker: the store
                    os.kill(one.pid, signal.SIGKILL)
        _, err = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 1, err
    assert "silo: the store has ended with status -9" in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("*.json"))


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="no_such_setting"):
        measured(tmp_path, "store.settings={no_such_setting=1}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nothing"), "no such file, and no shipped workload: backlog-drain"),
        (("run", "smoke", "--set", "runs=0"), "smoke: runs: Expected `int` >= 1"),
        (("run", "smoke", "--target", "x"), "target: x is none of silomq, silomq-broker"),
        (("run", "smoke", "--output", "no/result.json"), "no is no folder"),
        (
            ("run", "smoke", "--set", "faults=[{kind='fill-disk', at=1}]"),
            "give a file system with 4 GiB free at most by --folder",
        ),
    ],
)
def test_what_cannot_be_run(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = bench(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_list_and_limits(tmp_path: Path) -> None:
    done = bench(tmp_path, "list")
    assert done.returncode == 0, done.stderr
    assert "kill-one-actor-each-second" in done.stdout
    assert "give its address, as --set address=127.0.0.1:9876" in done.stdout
    found = json.loads(bench(tmp_path, "list", "--json").stdout)
    assert found["targets"]["silomq"] == ""
    found = json.loads(bench(tmp_path, "limits", "--json").stdout)
    assert [one["unit"] for one in found] == ["bytes/s", *["us"] * (LIMITS - 4), *["bytes/s"] * 3]
