"""The rules for the files of a store: queues and index are, byte for byte, what the twins make of
the log.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from support.plain_records import encode_blank
from support.twins import Queue, twin_dispatch, twin_index, walk

from silomq.store.consumequeue.queue import ENTRY_SIZE
from silomq.store.disk.paths import file_name
from silomq.store.index.file import ENTRY_SIZE as INDEX_ENTRY_SIZE
from silomq.store.index.file import HEADER, HEADER_SIZE, SLOT_SIZE
from silomq.store.record.javahash import index_key_hash
from silomq.store.record.properties import index_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from support.harness import StoreProcess

    from silomq.store.record.format import Record


def records_in(folder: Path, file_size: int, end: int | None = None) -> list[Record]:
    """Every record in the commit-log files of a store, until `end`; up to there no file is missing.
    Decoding checks lengths and the bodies' CRC.

    Behind `end` a power cut may bring back any of the unused files that a clean stop removed.
    """
    files = sorted((folder / "commitlog").iterdir())
    files = [file for file in files if end is None or int(file.name) < end]
    if not files:
        return []
    bases = [int(file.name) for file in files]
    first = bases[0]
    assert bases == [first + i * file_size for i in range(len(files))], f"{bases}, end {end}"
    return list(walk(b"".join(f.read_bytes() for f in files), file_size, first, end))


def log_records(store: StoreProcess) -> list[Record]:
    """Every record in the commit log, whose end must be `wrote` where the store runs."""
    size = setting(store, "mapped_file_size_commit_log")
    records = records_in(store.path, size)
    assert any((store.path / "commitlog").iterdir())
    if store.running.poll() is None and records:
        end = records[-1].physical_offset + records[-1].total_size
        assert store.control.load("wrote") in (end, -(-end // size) * size)
    return records


def setting(store: StoreProcess, name: str) -> int:
    """The value of one of the store's settings, which must have been given."""
    return int(str(store.settings[name]))


def expected_queues(records: Iterable[Record], file_size: int) -> dict[Queue, bytes]:
    """Each queue's files, one behind the other, as the twin would have written them."""
    found = {}
    for queue, entries in twin_dispatch(records).items():
        data = b"".join(entries[offset].pack() for offset in range(len(entries)))
        found[queue] = data.ljust(-(-len(data) // file_size) * file_size, b"\0")
    return found


def expected_index(records: Iterable[Record], slots: int, entries: int) -> list[bytes]:
    """The index files as the twin would have written them, without a last one that holds nothing.

    RocketMQ makes a file for the first record that comes to a full one, the kernel for the first
    key: a last file without entries is the only difference.
    """
    files = twin_index(records, slots, entries)
    if len(files) > 1 and files[-1].index_count == 1:
        files.pop()
    return [file.bytes() for file in files]


def check_queue_files(folder: Path, file_size: int, records: Iterable[Record]) -> None:
    """The queue files of a store are the twin's; files behind the last entry may be ready."""
    file_size = file_size // ENTRY_SIZE * ENTRY_SIZE
    expected = expected_queues(records, file_size)
    for topic_folder in (folder / "consumequeue").iterdir():
        for queue_folder in topic_folder.iterdir():
            queue = topic_folder.name, int(queue_folder.name)
            files = sorted(queue_folder.iterdir())
            assert [int(file.name) for file in files] == [i * file_size for i in range(len(files))]
            data = b"".join(file.read_bytes() for file in files)
            wanted = expected.pop(queue, b"")
            assert data[: len(wanted)] == wanted, f"entries of {queue}"
            assert not any(data[len(wanted) :]), f"{queue}: entries behind the last one"
    assert not expected, f"queues without files: {sorted(expected)}"


def check_index_files(folder: Path, slots: int, entries: int, records: Iterable[Record]) -> None:
    """The index files of a store are the twin's."""
    files = sorted((folder / "index").iterdir())
    expected = expected_index(records, slots, entries)
    assert len(files) == len(expected)
    for file, wanted in zip(files, expected, strict=True):
        assert file.read_bytes() == wanted, f"index file {file.name}"


def check_log_ends(folder: Path, file_size: int, records: Iterable[Record]) -> None:
    """Behind the last record of each log file lie zeros, but for an end-of-file record."""
    ends = {}
    for record in records:
        base = record.physical_offset // file_size * file_size
        ends[base] = record.physical_offset + record.total_size - base
    for base, end in ends.items():
        data = (folder / "commitlog" / file_name(base)).read_bytes()
        closed = encode_blank(file_size - end)
        behind = data[end:].removeprefix(closed) if file_size - end >= len(closed) else data[end:]
        assert not any(behind), f"log file {base}: bytes behind its end"


def check_files(store: StoreProcess) -> None:
    """Queue and index files of a stopped store are, byte for byte, what its log asks for. Nothing
    lies behind the records of the log.
    """
    records = log_records(store)
    check_log_ends(store.path, setting(store, "mapped_file_size_commit_log"), records)
    check_queue_files(store.path, setting(store, "mapped_file_size_consume_queue"), records)
    slots, entries = setting(store, "max_hash_slot_num"), setting(store, "max_index_num")
    check_index_files(store.path, slots, entries, records)


def index_entries(folder: Path, slots: int, *, settled: bool = True) -> Counter[tuple[int, int]]:
    """How often each pair of a key's hash and a log offset stands in the index files. In `settled`
    ones nothing stands behind the last entry; a killed writer may leave something there.
    """
    found: Counter[tuple[int, int]] = Counter()
    for file in sorted((folder / "index").iterdir()):
        data = file.read_bytes()
        count = HEADER.unpack_from(data)[5]
        start = HEADER_SIZE + SLOT_SIZE * slots
        for number in range(1, count):
            at = start + INDEX_ENTRY_SIZE * number
            key_hash = int.from_bytes(data[at : at + 4], "big", signed=True)
            found[key_hash, int.from_bytes(data[at + 4 : at + 12], "big")] += 1
        behind = data[start + INDEX_ENTRY_SIZE * max(count, 1) :]
        assert not settled or not any(behind), (
            f"index file {file.name}: entries behind the last one"
        )
    return found


def expected_entries(records: Iterable[Record]) -> Counter[tuple[int, int]]:
    """Every key of every record, as often as the record has it."""
    return Counter(
        (index_key_hash(record.topic, key), record.physical_offset)
        for record in records
        for key in index_keys(record.properties)
    )


def check_index(store: StoreProcess, records: Iterable[Record]) -> None:
    """Every key of every record stands in the index, exactly once for each time it is given."""
    found = index_entries(store.path, setting(store, "max_hash_slot_num"))
    assert found == expected_entries(records)


def surplus_entries(
    found: Counter[tuple[int, int]], wanted: Counter[tuple[int, int]], twice: Collection[int]
) -> set[int]:
    """The log offsets of which there is more in an index than is wanted. Those must be among
    `twice`, of which everything may be there once more.
    """
    places = {place for _, place in wanted}
    surplus = {entry for entry, n in found.items() if entry[1] in places and n > wanted[entry]}
    too_often = {place for _, place in surplus}
    assert too_often <= set(twice), f"keys of {sorted(too_often - set(twice))} are there twice"
    assert all(found[entry] <= 2 * wanted[entry] for entry in surplus)
    return too_often
