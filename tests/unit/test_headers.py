"""Offsets in C headers are those of the Python layouts, which tables in docstrings describe."""

from __future__ import annotations

import re

import pytest
from tidy.sources import ROOT

from silomq.shm import bell, control, metrics, progress, ring
from silomq.store.consumequeue import queue
from silomq.store.index import file
from silomq.store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from silomq.store.reading.columns import COLUMNS
from silomq.store.record import fields as fields_of_records
from silomq.store.record import format as record_format
from silomq.store.record import properties
from silomq.store.recovery.durable_progress import FIELDS
from silomq.store.status import AckLevel, PutMessageStatus
from silomq.store.topics import table_layout

Layout = dict[str, tuple[int, int]]
WIDTHS = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8}


def text_of(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def enums(path: str) -> dict[str, int]:
    """Every constant of the header's enums, all of which must be written out, and #defines."""
    text = text_of(path)
    found: dict[str, int] = {}
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, re.DOTALL):
        for item in filter(None, (part.strip() for part in body.split(","))):
            name, equals, value = (part.strip() for part in item.partition("="))
            assert equals, f"{path}: {name} has no value"
            assert name not in found
            found[name] = int(value, 0)
    for name, value in re.findall(r"#define\s+(\w+)\s+(0x[0-9A-Fa-f]+|\d+)u?\b", text):
        found[name] = int(value, 0)
    return found


def struct_fields(path: str, name: str) -> Layout:
    """Field -> (offset, size) of a typedef struct of integers without padding."""
    match = re.search(r"typedef\s+struct\s*\{([^}]*)\}\s*" + name + r"\s*;", text_of(path))
    assert match, f"{path} has no struct {name}"
    fields: Layout = {}
    at = 0
    for declaration in filter(None, (part.strip() for part in match[1].split(";"))):
        kind, names = declaration.split(None, 1)
        for field in names.split(","):
            assert at % WIDTHS[kind] == 0
            fields[field.strip()] = (at, WIDTHS[kind])
            at += WIDTHS[kind]
    return fields


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_layout_h_is_the_control_block_the_ring_and_the_bell() -> None:
    found = enums("shm/layout.h")
    others = {
        "ARRIVAL_WORDS": control.ARRIVAL_WORDS,
        "RING_DATA": ring.DATA,
        "FRAME_HEADER": ring.FRAME_HEADER,
        "FRAME_RESULT": ring.FRAME["status"][0],
        "FRAME_CHECKED": ring.FRAME["crc"][0] + ring.FRAME["crc"][1],
        "KIND_RECORDS": ring.KIND_RECORDS,
        "KIND_PAD": ring.KIND_PAD,
        **{f"BELL_{reason.name}": reason for reason in bell.Reason if reason.name != "NOTICES"},
    }
    for name, value in found.items():
        if name in others:
            assert value == others[name], name
        else:
            prefix, _, field = name.partition("_")
            layout = {"CONTROL": control.CONTROL, "RING": ring.RING, "BELL": bell.BELL}[prefix]
            assert value == layout[field.lower()][0], name
    assert set(others) <= set(found)
    assert sum(name.startswith("CONTROL_") for name in found) > 10


def test_structs_of_layout_h() -> None:
    path = "shm/layout.h"
    head = struct_fields(path, "silo_frame")
    result = {
        name: (at + ring.FRAME["status"][0], size)
        for name, (at, size) in struct_fields(path, "silo_result").items()
    }
    assert head | result == ring.FRAME
    assert struct_fields(path, "silo_progress") == progress.PROGRESS
    slot = control.CONTROL["progress_0"]
    assert max(at + size for at, size in progress.PROGRESS.values()) <= slot[1]
    assert set(progress.PROGRESS) < set(FIELDS)


def test_metrics_h_is_the_metrics_page() -> None:
    found = enums("shm/metrics.h")
    assert found.pop("SILO_PUTS_MOST") > 0
    assert found.pop("METRICS_STATUSES") == metrics.STATUSES > max(PutMessageStatus)
    assert found.pop("HISTOGRAM_STEPS") == metrics.STEPS
    for name, value in found.items():
        prefix, _, field = name.partition("_")
        layout = {"METRICS": metrics.METRICS, "HISTOGRAM": metrics.HISTOGRAM}[prefix]
        assert value == layout[field.lower()][0], name
    limits = re.search(r"SILO_LIMITS_US\[[^]]*\] = \{([^}]*)\}", text_of("shm/metrics.h"))
    assert limits
    numbers = [int(item) for item in limits[1].split(",") if item.strip()]
    assert tuple(numbers) == metrics.LIMITS_US


#: Names of store/topics/table.h that are spelled otherwise in the layouts.
TABLE_NAMES = {
    "TOPIC_SIZE": table_layout.TOPIC_SIZE,
    "QUEUE_SIZE": table_layout.QUEUE_SIZE,
    "QUEUE_ID": table_layout.QUEUE["queue_id"][0],
    "QUEUE_NAME": table_layout.QUEUE["name_start"][0],
    "QUEUE_NAME_SIZE": table_layout.QUEUE["name_start"][1],
}


def test_table_h_is_the_topic_table() -> None:
    found = enums("store/topics/table.h")
    for name, value in found.items():
        if name in TABLE_NAMES:
            assert value == TABLE_NAMES[name], name
            continue
        prefix, _, field = name.partition("_")
        layout = {
            "TABLE": table_layout.HEADER,
            "TOPIC": table_layout.TOPIC,
            "QUEUE": table_layout.QUEUE,
        }[prefix]
        assert value == layout[field.lower()][0], name
    assert {"TABLE_QUEUE_COUNT", "TOPIC_NAME", "QUEUE_NEXT"} <= set(found)


def test_index_h_is_the_index() -> None:
    fields = {
        f"INDEX_{name.upper()}": at
        for layout in file.LAYOUTS.values()
        for name, (at, _) in layout.items()
    }
    assert enums("store/index/index.h") == fields | {
        "INDEX_HEADER": file.HEADER_SIZE,
        "INDEX_SLOT": file.SLOT_SIZE,
        "INDEX_ENTRY": file.ENTRY_SIZE,
    }


def test_entries_h_is_the_queue_entry() -> None:
    found = enums("store/consumequeue/entries.h")
    layout = {f"ENTRY_AT_{name.upper()}": at for name, (at, _) in queue.LAYOUTS["entry"].items()}
    assert {name: found[name] for name in layout} == layout
    assert found["ENTRY_SIZE"] == queue.ENTRY_SIZE


def test_record_h_is_the_record() -> None:
    found = enums("store/record/record.h")
    fields = {snake(name): at for name, (at, _) in record_format.LAYOUT.items()} | {
        "body_crc": record_format.LAYOUT["bodyCRC"][0],
        "fixed": record_format.MIN_RECORD_BYTES,
        "magic_v1": record_format.MAGIC_V1,
        "magic_v2": record_format.MAGIC_V2,
        "magic_end": record_format.MAGIC_BLANK,
        "body": sum(record_format.LAYOUT["bodyLength"]),
        # Answers of silo_parse_record.
        "ok": 0,
        "end_of_file": 1,
        "none": 2,
        "bad": 3,
        "long": 4,
        # What a disk writes at once.
        "sector": 512,
    }
    others = {
        "END_OF_FILE_SIZE": record_format.BLANK_BYTES,
        "CRC_PROPERTY_SIZE": properties.CRC_PAIR_BYTES,
        "HOST_SIZE": record_format.LAYOUT["bornHost"][1],
        "HOST_V6_SIZE": record_format.LAYOUT["bornHost"][1] + fields_of_records.IPV6_MORE,
        "HOST_PORT_SIZE": 4,
        "FLAG_COMPRESSED": record_format.SYS_COMPRESSED,
        "FLAG_MULTI_TAGS": record_format.SYS_MULTI_TAGS,
        "FLAG_COMPRESSION_TYPE": record_format.SYS_COMPRESSION_TYPE,
        "FLAG_TRANSACTION": record_format.SYS_TRANSACTION,
        "FLAG_PREPARED": record_format.TRANSACTION_PREPARED,
        "FLAG_COMMIT": record_format.TRANSACTION_COMMIT,
        "FLAG_ROLLBACK": record_format.TRANSACTION_ROLLBACK,
        "FLAG_BORN_V6": record_format.SYS_BORN_V6,
        "FLAG_STORE_V6": record_format.SYS_STORE_V6,
    }
    for name, value in found.items():
        if name in others:
            assert value == others[name], name
        else:
            assert name.startswith("RECORD_"), name
            assert value == fields[name.removeprefix("RECORD_").lower()], name


@pytest.mark.parametrize("path", ["shm/layout.h", "store/topics/table.h", "store/record/record.h"])
def test_every_constant_is_looked_at(path: str) -> None:
    assert len(enums(path)) >= 15


@pytest.mark.parametrize("path", ["store/commitlog/_append.pxd", "client/producing/_ring.pxd"])
def test_statuses_in_compiled_modules_are_those_of_the_store(path: str) -> None:
    found = dict(re.findall(r"^    ([A-Z_]+) = (\d+)", text_of(path), re.MULTILINE))
    statuses = {name: int(found[name]) for name in found if name in PutMessageStatus.__members__}
    assert "PUT_OK" in statuses
    assert statuses == {name: PutMessageStatus[name].value for name in statuses}


@pytest.mark.parametrize("path", ["store/record/properties.h", "store/reading/columns.h"])
def test_names_of_properties_in_headers(path: str) -> None:
    found = re.findall(r"== (\d+) && memcmp\(p, \"(\w+)\", (\d+)\)", text_of(path))
    names = {name for _, name, _ in found}
    known = {
        *(properties.TAGS, properties.KEYS, properties.UNIQ_KEY, properties.DELAY),
        properties.MULTI_QUEUE_OFFSET,
    }
    assert len(names) >= 3
    assert names <= known
    assert all(int(size) == int(again) == len(name) for size, name, again in found)


@pytest.mark.parametrize(
    ("path", "name", "text"),
    [
        ("store/delay/_delivered.pyx", "LEVELS", SCHEDULE_TOPIC),
        ("store/delay/_delivered.pyx", "TIMER", TIMER_TOPIC),
        ("store/delay/_delivered.pyx", "MARK", properties.REAL_TOPIC + "\\x01"),
    ],
)
def test_names_in_compiled_modules(path: str, name: str, text: str) -> None:
    assert f'cdef const char *{name} = "{text}"\n' in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/record/properties.h", SCHEDULE_TOPIC),
        ("store/consumequeue/tags_code.h", SCHEDULE_TOPIC),
        ("store/record/whole.h", properties.CRC32 + "\\x01"),
        ("store/record/record.h", properties.CRC32 + "\\x01"),
    ],
)
def test_names_that_headers_compare(path: str, text: str) -> None:
    (size,) = re.findall(rf'memcmp\([^"]*"{re.escape(text)}", (\d+)\)', text_of(path))
    assert int(size) == len(text.replace("\\x01", "\x01"))


def test_delayed_topics_have_the_length_that_compiled_modules_compare() -> None:
    lengths = re.findall(r"(?:topic_length ==|_LENGTH =|\w+,) (\d+)\b", text_of_delayed_topics())
    assert {int(length) for length in lengths} == {len(SCHEDULE_TOPIC)} == {len(TIMER_TOPIC)}


def text_of_delayed_topics() -> str:
    """The lines of compiled modules that compare topics with those of delayed messages."""
    lines = [
        line
        for path in ("store/consumequeue/tags_code.h", "store/delay/_delivered.pyx")
        for line in (ROOT / path).read_text(encoding="utf-8").splitlines()
    ]
    return "\n".join(line for line in lines if re.search(r"topic_length ==|LENGTH =|TIMER, ", line))


def test_columns_h_has_the_columns_in_their_order() -> None:
    found = re.findall(r"\bCOL_(\w+)[,\s]", text_of("store/reading/columns.h").split("}", 1)[0])
    assert tuple(name.lower() for name in found) == COLUMNS


def test_the_ack_levels_in_the_compiled_client_are_those_of_the_store() -> None:
    text = (ROOT / "client/producing/_future.pxd").read_text(encoding="utf-8")
    found = {
        name: int(value) for name, value in re.findall(r"^    ([A-Z]+) = (\d+)", text, re.MULTILINE)
    }
    assert {level.name: found[level.name] for level in AckLevel} == {
        level.name: level.value for level in AckLevel
    }
