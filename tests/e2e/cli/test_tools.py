"""`silo dump`, `verify` and `repair` as commands, on stores of our own."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.commands import SMALL_OPTIONS, sentence, silo
from support.harness import StoreProcess
from support.offline_stores import state
from support.small_settings import SHIPPED_LIMITS

from silomq import Consumer, CorruptRange, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = ("orders", "bills")
COUNT = 3000
TOOLS = (
    ("dump", "manifest"),
    ("dump", "commitlog"),
    ("dump", "consumequeue"),
    ("dump", "index"),
    ("dump", "checkpoint"),
    ("verify",),
    ("repair", "--rebuild"),
    ("repair", "--rebuild", "--yes"),
    ("repair", "--truncate-at", "0"),
)


def fill(folder: Path) -> None:
    with Producer(folder) as producer:
        for number in range(COUNT):
            body = f"{number} " * (1 + number % 50)
            producer.send_async(TOPICS[number % 2], body, tags=f"t{number % 7}", keys=f"k{number}")
        producer.flush()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tools") / "store"
    with StoreProcess(folder, base=SHIPPED_LIMITS):
        fill(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "store"
    shutil.copytree(stopped, folder)
    yield folder
    shutil.rmtree(folder)


def tool(*words: str, store: Path, status: int = 0) -> list[str]:
    done = silo(*words, str(store), *SMALL_OPTIONS, status=status)
    return done.stdout.decode().splitlines()


def test_a_store_of_ours_is_sound(stopped: Path) -> None:
    before = state(stopped)
    assert tool("verify", store=stopped) == []
    lines = [json.loads(line) for line in tool("dump", "manifest", store=stopped)]
    messages = [line for line in lines if line["kind"] == "msg"]
    assert len(messages) == COUNT
    assert all(m["cq"]["offset"] == m["commitLogOffset"] for m in messages)
    assert sum(line["read"] for line in lines if line["kind"] == "queue") == COUNT
    found = json.loads(silo("verify", str(stopped), *SMALL_OPTIONS, "--json").stdout)
    assert found["sound"]
    assert found["counts"]["queue entries"] == COUNT
    assert state(stopped) == before


def test_the_manifest_answers_look_ups(stopped: Path) -> None:
    queries = ("--key", "bills,k7,10,0,9223372036854775807", "--time", "orders,0,0")
    lines = [json.loads(x) for x in tool("dump", "manifest", *queries, "--exact", store=stopped)]
    (wanted,) = [m["commitLogOffset"] for m in lines if m["kind"] == "msg" and m["keys"] == "k7"]
    assert lines[-1]["offsets"] == [wanted]
    assert lines[-2]["offset"] == 0


def test_dump_shows_what_stands_in_the_files(stopped: Path) -> None:
    before = state(stopped)
    assert len(tool("dump", "commitlog", "--count", "10", store=stopped)) == 10
    pieces = [json.loads(x) for x in tool("dump", "consumequeue", "--json", store=stopped)]
    assert len(pieces) == COUNT
    assert tool("dump", "index", "--count", "2", store=stopped)[1].startswith("entry ")
    done = silo("dump", "record", str(stopped), "0", *SMALL_OPTIONS)
    assert b"topic: " in done.stdout
    assert state(stopped) == before


def test_damage_is_named(copy: Path) -> None:
    lines = [json.loads(line) for line in tool("dump", "manifest", store=copy)]
    message = next(m for m in lines if m["kind"] == "msg" and m["keys"] == "k100")
    file = copy / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[message["commitLogOffset"] + 90] ^= 1
    file.write_bytes(data)
    (found,) = tool("verify", store=copy, status=1)
    assert found.startswith(f"{file}:{message['commitLogOffset']}: bodyCRC")
    offset = str(message["commitLogOffset"])
    (shown,) = tool("dump", "commitlog", "--offset", offset, "--count", "1", store=copy)
    assert "WRONG: bodyCRC" in shown


def test_repair_makes_a_damaged_store_sound(copy: Path) -> None:
    before = state(copy)
    lines = tool("dump", "manifest", store=copy)
    tool("repair", "--rebuild", store=copy)
    assert state(copy) == before
    shutil.rmtree(copy / "consumequeue" / "orders")
    assert tool("verify", store=copy, status=1)
    tool("repair", "--rebuild", "--yes", store=copy)
    assert tool("verify", store=copy) == []
    assert tool("dump", "manifest", store=copy) == lines
    with StoreProcess(copy, base=SHIPPED_LIMITS):
        fill(copy)
    assert tool("verify", store=copy) == []


def test_a_running_store_is_not_repaired(copy: Path) -> None:
    with StoreProcess(copy, base=SHIPPED_LIMITS):
        done = silo("repair", str(copy), "--rebuild", "--yes", *SMALL_OPTIONS, status=4)
        assert "in use" in sentence(done)


@pytest.mark.parametrize("words", TOOLS, ids=" ".join)
def test_what_is_no_store(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("nothing", "file", "empty"):
        done = silo(*words, str(tmp_path / name), *SMALL_OPTIONS, status=2)
        assert str(tmp_path / name) in sentence(done)
    assert sorted(os.listdir(tmp_path)) == ["empty", "file"]
    assert os.listdir(tmp_path / "empty") == []


@pytest.mark.parametrize("words", TOOLS, ids=" ".join)
def test_bad_files_are_named(words: tuple[str, ...], copy: Path) -> None:
    file = copy / "commitlog" / f"{0:020d}"
    os.truncate(file, 5000)
    before = state(copy)
    done = silo(*words, str(copy), *SMALL_OPTIONS, status=2)
    assert f"{file} has 5000 bytes" in sentence(done)
    done = silo(*words, str(copy), status=2)
    assert "mapped_file_size_commit_log=5000" in sentence(done)
    assert state(copy) == before


def test_a_foreign_file_is_named(copy: Path) -> None:
    (copy / "commitlog" / "notes.txt").write_text("mine")
    before = state(copy)
    for words in TOOLS:
        done = silo(*words, str(copy), *SMALL_OPTIONS, status=2)
        assert "none of the store's files" in sentence(done)
    assert state(copy) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_missing_permission_is_said(copy: Path) -> None:
    (copy / "commitlog" / f"{0:020d}").chmod(0)
    done = silo("verify", str(copy), *SMALL_OPTIONS, status=2)
    assert "cannot read" in sentence(done)


def test_wrong_usage_is_said() -> None:
    said = sentence(silo("repair", "x", status=2))
    assert "one of --rebuild, --holes and --truncate-at" in said
    for command in ("dump", "verify", "repair"):
        assert "Examples:" in silo(command, "--help").stdout.decode()
    text = silo("dump", "manifest", "--help").stdout.decode()
    assert "--exact / --like-rocketmq" in text


@pytest.mark.parametrize("lost", ["commitlog", "consumequeue"])
def test_a_repair_makes_lost_files_in_the_sizes_that_the_store_knows(
    tmp_path: Path, lost: str
) -> None:
    small = StoreProcess(tmp_path / "store", mapped_file_size_consume_queue=2000)
    with small, Producer(small.path) as producer:
        for number in range(20):
            producer.send("t", b"%d" % number, queue=0)
    shutil.rmtree(small.path / lost)
    (small.path / lost).mkdir()
    silo("repair", str(small.path), "--holes" if lost == "commitlog" else "--rebuild", "--yes")
    with small, Consumer(small.path, "t", queues=[0]) as consumer:
        if lost == "commitlog":
            with pytest.raises(CorruptRange):
                consumer.poll(20, 5.0)
        else:
            assert len(consumer.poll(20, 5.0)) == 20


def test_no_command_needs_the_sizes_of_a_store_that_knows_them(tmp_path: Path) -> None:
    """`serve`, `config` and the tools take the sizes from the store, and refuse others."""
    store = tmp_path / "store"
    with StoreProcess(store, base=SHIPPED_LIMITS):
        silo("send", "t", "hello", store=store)
    size = SHIPPED_LIMITS["mapped_file_size_commit_log"]
    shown = {s["name"]: s for s in json.loads(silo("config", "--json", store=store).stdout)}
    assert shown["mapped_file_size_commit_log"]["value"] == size
    assert shown["mapped_file_size_commit_log"]["origin"] == "the store"
    assert b"hello" in silo("dump", "commitlog", str(store)).stdout
    assert b"sound" in silo("verify", str(store)).stderr
    assert (
        b"would build consume queues and index anew"
        in silo("repair", str(store), "--rebuild").stderr
    )
    other = ("--set", "mapped_file_size_commit_log=16MiB")
    for command in (["config", "--store"], ["serve", "--store"], ["dump", "commitlog"], ["verify"]):
        said = sentence(silo(*command, str(store), *other, status=3))
        assert f"the store was made with {size}" in said
    with StoreProcess(store, base={"clean_file_forcibly_enable": "false"}):
        assert silo("tail", "t", "--body-only", store=store).stdout == b"hello\n"
