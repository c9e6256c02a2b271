"""Batches that append makes in its own memory, at the bounds of that memory and of the file."""

from __future__ import annotations

import errno
import random

import pytest
from support.append_rig import Rig
from support.frames import one

from silomq.store.record.format import decode_record

pytestmark = pytest.mark.usefixtures("each_way_of_writing")


def test_a_batch_may_be_longer_than_what_is_staged_at_once() -> None:
    """Also a frame that is, and a batch that ends the file."""
    rng = random.Random(5)
    sizes = [100, 90_000, 90_000, 90_000, 300_000, 50, 200_000, 100_000, 300_000, 10, 400_000, 70]
    rig = Rig(file_size=1 << 20, batch_bytes=8 << 20)
    producer = rig.new_ring(capacity=8 << 20)
    batches = [one(body=rng.randbytes(size)) for size in sizes]
    begins = [producer.place(rig.frame(batch)) for batch in batches]
    assert rig.run() == []
    for batch, begin in zip(batches, begins, strict=True):
        at = producer.result(begin).physical_offset
        found = decode_record(rig.log, at)
        assert (found.body, found.physical_offset) == (batch.messages[0]["body"], at)
    assert len(rig.files) == 2


def test_what_a_file_does_not_take_is_stored_in_the_mapping() -> None:
    """Append can tell why."""
    rig = Rig()
    producer = rig.new_ring()
    assert rig.kernel.write_error == 0
    with open("/dev/full", "wb") as full:
        rig.kernel.set_file(rig.open(0).mapping, 0, full.fileno())
        begins = [producer.place(rig.frame(one(body=body))) for body in (b"first", b"second")]
        rig.run()
    offsets = [producer.result(begin).physical_offset for begin in begins]
    assert [decode_record(rig.log, at).body for at in offsets] == [b"first", b"second"]
    assert rig.kernel.write_error == errno.ENOSPC
