"""Only the module that owns a format packs and unpacks it. Other modules call that module.

The test finds uses of `struct` and of numpy's dtypes in modules that own no format.
tests/unit/test_headers.py compares the C headers with the owners.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tidy.sources import nodes, of_each, parsed, sources

if TYPE_CHECKING:
    from pathlib import Path

#: The modules that own a format, and the format.
OWNERS: Final = {
    "actors/registry/access.py": "the kernel's struct ucred",
    "tools/doctor/stores.py": "the kernel's struct flock",
    "supervisor/relay.py": "the kernel's struct ucred",
    "bench/harness/load/latencies.py": "the frame of HdrHistogram's compressed form",
    "broker/wire/command.py": "frames and headers of RocketMQ's protocol",
    "bench/harness/targets/remoting_client.py": "bodies of batches, as a client makes them",
    "broker/processors/send_headers.py": "bodies of batches in RocketMQ's protocol",
    "names/registration.py": "compressed registrations of RocketMQ 4",
    "shm/board.py": "boards",
    "shm/control.py": "the control block",
    "bench/counting.py": "frames of rings, once for each run",
    "shm/history.py": "rows of the history",
    "shm/ringwriter.py": "frames of rings",
    "store/consumequeue/queue.py": "queue entries",
    "store/disk/slots.py": "the progress of deliveries and of transactions",
    "store/delay/rocketmq_timers.py": "RocketMQ's checkpoint of timers",
    "store/delay/timers.py": "timer buckets",
    "store/groups/ack_file.py": "ack files",
    "store/groups/lease_journal.py": "journals of leases",
    "store/index/file.py": "index files",
    "store/record/fields.py": "records, field by field",
    "store/record/format.py": "records",
    "store/record/ids.py": "message ids and hosts",
    "store/recovery/checkpoint.py": "the checkpoint",
    "store/recovery/durable_progress.py": "the progress of a store",
    "store/topics/topic_table.py": "the topic table",
}


def layouts(tree: ast.Module) -> list[str]:
    """The expressions in a module that define a binary layout."""
    return [
        ast.unparse(node)
        for node in nodes(tree)
        if isinstance(node, ast.Call) and (_of_struct(node) or _of_numpy(node) or _of_slice(node))
    ]


def _of_struct(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith("struct.")


def _of_numpy(call: ast.Call) -> bool:
    """Whether the call makes a dtype from a list of fields."""
    return ast.unparse(call.func) == "np.dtype" and isinstance(call.args[0], ast.List)


def _of_slice(call: ast.Call) -> bool:
    """Whether the call decodes a number from a slice with a constant as its beginning."""
    if ast.unparse(call.func) != "int.from_bytes" or not isinstance(call.args[0], ast.Subscript):
        return False
    place = call.args[0].slice
    return isinstance(place, ast.Slice) and isinstance(place.lower, ast.Constant)


def test_what_counts_as_a_layout() -> None:
    written = """
struct.Struct(">iq")
struct.unpack_from(">i", data, 32)
np.dtype([("offset", ">i8")])
int.from_bytes(record[20:28], "big")
"""
    other = """
ENTRY.unpack(data)
np.dtype(list(ENTRY_FIELDS))
int.from_bytes(data[at : at + 4], "big")
int.from_bytes(data, "big")
"""
    assert all(layouts(ast.parse(line)) for line in written.strip().splitlines())
    assert not any(layouts(ast.parse(line)) for line in other.strip().splitlines())


@of_each(sources(".py"))
def test_layouts_are_written_by_their_owners(path: Path) -> None:
    found = layouts(parsed(path))
    assert bool(found) == (str(path) in OWNERS), found
