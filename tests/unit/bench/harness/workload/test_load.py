"""Workloads from files: what may stand there, and what an error says."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.bench.harness.workload import shipped
from silomq.bench.harness.workload.load import BadWorkload, _decode, load, plain
from silomq.bench.harness.workload.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = (
    "backlog-drain",
    "fan-out",
    "kill-one-actor-each-second",
    "latency-under-load",
    "max-throughput",
    "mixed-with-cleaning",
    "producers-sweep",
    "read-views",
    "send-to-listen",
    "size-sweep",
    "smoke",
    "soak",
    "sync-durable",
    "topics-sweep",
)


def test_what_is_shipped() -> None:
    assert tuple(shipped.names()) == SHIPPED
    assert all(shipped.descriptions().values())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_workload_is_legal_and_can_be_written_and_read_again(
    name: str, tmp_path: Path
) -> None:
    plan = load(name)
    assert plan.name == name
    file = tmp_path / "result.json"
    file.write_text(json.dumps({"workload": plain(plan.workload)}))
    again = load(str(file))
    assert again.workload == plan.workload
    assert again.steps == plan.steps


def test_a_sweep_has_a_step_for_each_value() -> None:
    plan = load("topics-sweep", ["sweep.values=[1,64]"])
    assert [(one.label, one.value) for one in plan.steps] == [("count", 1.0), ("count", 64.0)]
    assert [one.workload.topics.count for one in plan.steps] == [1, 64]
    assert all(one.workload.sweep is None for one in plan.steps)


def test_values_with_units() -> None:
    changes = ["duration=1min", "warm_up=500ms", "store.file_size=64MiB", "producers.rate=50%"]
    workload = load("max-throughput", changes).workload
    assert (workload.duration, workload.warm_up) == (60.0, 0.5)
    assert workload.store.file_size == 64 << 20
    assert workload.producers.rate.share == 0.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("producers.rate=0", "producers.rate: 0 is not allowed: a number above 0"),
        ("producers.rate=150%", "producers.rate: '150%' is not allowed"),
        ("producers.size=3", "producers.size: Expected `int` >= 16"),
        ("producers.call=shout", "producers.call: Invalid enum value 'shout'"),
        ("producers.nothing=1", "producers: there is no key `nothing`"),
        ("duration=soon", "duration: 'soon' is not allowed: a number from 0 to 2592000, or as"),
        ("duration=0.5", "duration: at least 1 s"),
        ("runs=0", "runs: Expected `int` >= 1"),
        ("store.file_size=1", "store: file_size: 1 is not within 64KiB to 2GiB"),
        ("consumers.cold=true", "consumers: cold: only with after = true"),
        ("check=true", "check: messages are only counted if consumers.groups is above 0"),
        ("faults=[{kind='kill'}]", "faults[0]: at, every: give one of them"),
        ("faults=[{kind='melt', at=1}]", "faults[0].kind: Invalid enum value 'melt'"),
        ("topics.name='a/b'", "topics.name: Expected `str` matching regex"),
        ("sweep={key='topics.count', values=[1, -1]}", "step 2 of the sweep: topics.count"),
        ("sweep={key='topics.count.x', values=[1]}", "topics.count.x"),
        ("duration", "--set duration: KEY=VALUE is wanted"),
        ("duration.x=1", "duration.x"),
    ],
)
def test_what_is_not_allowed_is_named(change: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("duration = 5\n[topics]\ncount = 1\n[producers]\n[store]\n[consumers]\n")
    with pytest.raises(BadWorkload) as caught:
        load(str(file), [change])
    assert said in str(caught.value)
    assert str(file) in str(caught.value) or "--set" in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadWorkload, match="no such file, and no shipped workload: backlog-drain"):
        load("nothing")
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "nothing.toml"))
    file = tmp_path / "bad.toml"
    file.write_bytes(b"\xff")
    with pytest.raises(BadWorkload, match="not UTF-8 at byte 0"):
        load(str(file))
    file.write_text("a = ")
    with pytest.raises(BadWorkload, match="no TOML"):
        load(str(file))
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(BadWorkload, match="bytes"):
        load(str(file))


def _keys(kind: Any) -> list[str]:
    return [one.name for one in msgspec.structs.fields(kind)]


_VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.booleans(),
    st.lists(st.integers(-1, 5), max_size=3),
    st.dictionaries(st.sampled_from(["kind", "at", "key", "values", "distribution"]), st.text()),
    st.sampled_from(["max", "50%", "1e400s", "9" * 400, "10s", "1GiB", "-1", "٣"]),
)
_TABLES = ("topics", "producers", "consumers", "store", "sweep")


@given(
    st.dictionaries(st.sampled_from([*_keys(Workload), "other"]), _VALUES, max_size=4),
    st.dictionaries(
        st.sampled_from(_TABLES),
        st.dictionaries(
            st.sampled_from(
                ["count", "queues", "rate", "size", "groups", "file_size", "key", "values", "after"]
            ),
            _VALUES,
            max_size=4,
        ),
        max_size=3,
    ),
)
def test_any_tables_give_a_workload_or_an_error_that_names_the_file(
    plain_keys: dict[str, Any], tables: dict[str, Any]
) -> None:
    try:
        found = _decode("any.toml", {**plain_keys, **tables})
    except BadWorkload as error:
        assert str(error).startswith("any.toml")  # noqa: PT017
    else:
        assert found.duration >= 1
        assert 1 <= found.producers.processes <= 256


@given(st.binary(max_size=200))
def test_any_bytes_give_a_workload_or_an_error(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        try:
            load(file.name)
        except BadWorkload as error:
            assert str(error).startswith(file.name)  # noqa: PT017
