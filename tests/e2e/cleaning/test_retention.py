"""Retention by size and by consumption, and what `silo retention explain` says of it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from support.cleaned_stores import (
    active,
    await_durable,
    check_least,
    check_readable,
    fill,
    log_files,
)
from support.commands import sentence, silo
from support.harness import StoreProcess, eventually
from support.small_settings import ALWAYS, BY_HAND, LOG_FILE, options

from silomq import Admin, GroupConsumer

if TYPE_CHECKING:
    from pathlib import Path

#: Expires at once, but unconsumed files stay for an hour.
KEEPING = {**ALWAYS, "file_reserved_unconsumed_h": 1, "flush_consumer_offset_interval_ms": 100}
#: Expires in an hour, and by size at any hour.
SIZED = {**BY_HAND, "file_reserved_time_h": 1, "file_reserved_size": 5 * LOG_FILE}


def explained(store: StoreProcess, *arguments: str) -> dict[str, Any]:
    settings = {
        name: value
        for name, value in store.settings.items()
        if name.startswith(("file_", "delete_", "disk_", "clean_", "destroy_"))
    }
    done = silo("retention", "explain", str(store.path), "--json", *options(settings), *arguments)
    found: dict[str, Any] = json.loads(done.stdout)
    assert [file["base"] for file in found["files"]] == sorted(
        file["base"] for file in found["files"]
    )
    return found


def whys(store: StoreProcess, *arguments: str) -> list[str]:
    return [file["why"] for file in explained(store, *arguments)["files"]]


def is_known(store: StoreProcess, group: str) -> bool:
    """Whether the file of offsets has the group."""
    file = store.path / "config" / "consumerOffset.json"
    return file.exists() and f"alpha@{group}".encode() in file.read_bytes()


def test_what_a_group_has_not_consumed_stays(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **KEEPING) as store:
        fill(store, 0, 1)
        with GroupConsumer(store.path, "slow", {"alpha": "*"}, start="earliest") as consumer:
            eventually(lambda: consumer.poll(1, timeout=1), "the group has begun")
            eventually(lambda: is_known(store, "slow"), "its progress is saved")
            sent = fill(store, 1, 900)
            await_durable(store)
            assert active(store) > 2 * LOG_FILE
            found = explained(store)["files"]
            held = [file for file in found if file["why"] == "unconsumed"]
            assert held, found
            assert "group slow has not consumed alpha[" in held[0]["about"]
            assert held[0]["when_ms"] >= held[0]["modified_ms"] + 3_600_000
            first = log_files(store)[0]
            for _ in range(3):  # it has looked at them, and has let them be
                store.await_beat("clean")
            assert log_files(store)[0] == first
            assert first < active(store)
            taken = 1
            while taken < sent:
                taken += len(consumer.poll(100, timeout=1))
            consumer.poll(1, timeout=0.1)  # acknowledges the last ones
            eventually(lambda: log_files(store)[0] == active(store), "the files go")
        check_least(store)
        check_readable(store, sent)


def test_a_group_that_is_gone_holds_nothing_longer_than_the_bound(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **KEEPING) as store:
        fill(store, 0, 1)
        with GroupConsumer(store.path, "gone", {"alpha": "*"}, start="earliest") as consumer:
            eventually(lambda: consumer.poll(1, timeout=1), "the group has begun")
        eventually(lambda: is_known(store, "gone"), "its progress is saved")
        sent = fill(store, 1, 900)
        await_durable(store)
        bases = log_files(store)
        assert whys(store)[0] == "unconsumed"
        old = time.time() - 3601
        os.utime(store.path / "commitlog" / f"{bases[0]:020d}", (old, old))
        eventually(lambda: log_files(store)[0] == bases[1], "the first file goes")
        with Admin(store.path) as admin:
            admin.delete_group("gone")
        eventually(lambda: log_files(store)[0] == active(store), "nobody holds the others")
        check_readable(store, sent)


def test_a_log_that_is_too_large_goes_at_any_hour(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **SIZED) as store:
        sent = fill(store, 0, 400)
        assert active(store) < 5 * LOG_FILE
        assert whys(store)[0] in ("young", "end")
        sent = fill(store, sent, 3000)
        await_durable(store)
        wrote = store.control.load("wrote")
        least = (wrote - 5 * LOG_FILE) // LOG_FILE * LOG_FILE
        eventually(lambda: log_files(store)[0] == least, "the oldest files go")
        assert "goes" not in {file["about"] for file in explained(store)["files"]}
        assert whys(store)[0] == "young"
        check_least(store)
        check_readable(store, sent)


def test_the_explanation_is_what_is_done(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **{**BY_HAND, "file_reserved_time_h": 1}) as store:
        sent = fill(store, 0, 1500)
        await_durable(store)
        bases = log_files(store)
        old = time.time() - 3601
        for base in (*bases[:2], bases[3]):
            os.utime(store.path / "commitlog" / f"{base:020d}", (old, old))
        assert whys(store)[:4] == ["due", "due", "young", "behind"]
        found = explained(store)["files"]
        hour = time.localtime(found[0]["when_ms"] / 1000).tm_hour
        assert f"{hour:02d}" == store.settings["delete_when"]
        assert found[3]["when_ms"] == found[2]["when_ms"] >= found[2]["modified_ms"] + 3_600_000
        assert (found[-1]["why"], found[-1]["when_ms"]) == ("end", None)
        assert "the end of the log" in found[-1]["about"]
        silo("clean", store=store.path)
        eventually(lambda: log_files(store)[0] == bases[2], "what was due goes")
        assert whys(store)[0] == "young"
        check_readable(store, sent)
        text = silo("retention", "explain", str(store.path)).stdout.decode()
        assert f" {bases[2]:,} " in text
        assert "file_reserved_time_h" in text
    told = silo("retention", "explain", str(store.path), "--json")
    assert "does not run" in json.loads(told.stdout)["notes"][-1]


def test_a_folder_that_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    assert "no folder" in sentence(silo("retention", "explain", str(tmp_path / "x"), status=2))
    assert "commitlog" in sentence(silo("retention", "explain", str(tmp_path), status=2))
