"""Declared holes in the data source, without Spark: an error by default, or damage passed over."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from spark.reading import options, places, rows, tasks
from support.harness import StoreProcess
from support.load.messages import body_of
from support.small_settings import BY_HAND, LOG_FILE, load

from silomq import Producer
from silomq.pipeline.source.snapshot import DataLoss
from silomq.store.errors import CorruptRange
from silomq.tools.repair import apply, plan_holes

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 2000
#: The ways to read all of it: the log, in whole files or small parts; the queues.
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"maxPartitionBytes": 5000},
    {"subscribe": "alpha"},
    {"subscribe": "alpha", "minPartitions": 9},
)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], list[int]]:
    """A store without one log file, and with a damaged record; the places of all messages, and of
    those that are left.
    """
    with StoreProcess(tmp_path_factory.mktemp("holes") / "store", **BY_HAND) as store:
        with Producer(store.path) as producer:
            for i in range(COUNT):
                producer.send_async("alpha", body_of(0, i) * 4, queue=i % 3)
            producer.flush()
        store.await_dispatch()
        store.stop()
    whole = places(store.path)
    (store.path / "commitlog" / f"{2 * LOG_FILE:020d}").unlink()
    with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(whole[20] + 4)
        file.write(b"damaged")
    left = [at for at in whole if at != whole[20] and at // LOG_FILE != 2]
    return store.path, whole, left


@pytest.fixture(scope="module")
def repaired(
    damaged: tuple[Path, list[int], list[int]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("repaired") / "store"
    shutil.copytree(damaged[0], path)
    settings = load(path, BY_HAND)
    apply(str(path), settings, plan_holes(str(path), settings))
    return path


@pytest.mark.parametrize("given", KINDS)
def test_a_missing_file_of_a_stopped_store_is_data_loss(
    damaged: tuple[Path, list[int], list[int]], given: dict[str, Any]
) -> None:
    """Also if the store is not repaired, and the log is read file by file."""
    path, _, _ = damaged
    with pytest.raises(DataLoss):
        rows(tasks(path, onCorrupt="skip", **given), options(path, onCorrupt="skip", **given))


@pytest.mark.parametrize("given", KINDS)
def test_a_hole_is_an_error_that_names_its_range(
    damaged: tuple[Path, list[int], list[int]], repaired: Path, given: dict[str, Any]
) -> None:
    _, whole, _ = damaged
    with pytest.raises(CorruptRange) as caught:
        rows(tasks(repaired, **given), options(repaired, **given))
    error = caught.value
    assert (error.start, error.end) in ((whole[20], whole[21]), (2 * LOG_FILE, 3 * LOG_FILE))
    assert (error.queue_offsets is not None) == ("subscribe" in given)
    assert "onCorrupt" in "".join(error.__notes__)


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("on_corrupt", ["skip", "row"])
def test_a_hole_can_be_passed_over(
    damaged: tuple[Path, list[int], list[int]],
    repaired: Path,
    given: dict[str, Any],
    on_corrupt: str,
) -> None:
    """Every message that is left comes once, no stand-in comes, and each hole is damage."""
    _, whole, left = damaged
    chosen = options(repaired, onCorrupt=on_corrupt, **given)
    found, damage = rows(tasks(repaired, onCorrupt=on_corrupt, **given), chosen, ["physicalOffset"])
    assert sorted(row["physical_offset"] for row in found) == left
    assert {one.start for one in damage} == {whole[20], 2 * LOG_FILE}
    if "subscribe" not in given:
        assert len(damage) == 2
    assert all("commit log is corrupt from offset" in one.why for one in damage)
