"""How far the process `transactions` is, in the file `silomq/transactions`.

The file has four slots of 512 bytes, as `store/disk/slots.py` describes. The newest one counts
whose `scan_from` is not behind the log's end.

Layout slot:

======  ====  ====  ==============  =======
offset  size  type  field           meaning
======  ====  ====  ==============  =======
0       8     u64   magic           "SILOTRN1"
8       8     u64   generation      the greatest counts
16      8     u64   scan_from       log offset: op records name the halves of all finals below it
24      8     u64   half_next       queue offset: halves below it are done
32      8     u64   op_next         queue offset: no op record below it names a half that is not
40      8     u64   decision_next   queue offset: decisions below it have been obeyed
48      8     u64   crc             CRC-32C of bytes 0..48
======  ====  ====  ==============  =======
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..disk import slots
from ..disk.files import Folder
from ..disk.slots import Slots

FILE: Final = "transactions"
MAGIC: Final = int.from_bytes(b"SILOTRN1", "little")
SLOT_SIZE: Final = 512
LAYOUTS: Final = {
    "slot": {
        "magic": (0, 8),
        "generation": (8, 8),
        "scan_from": (16, 8),
        "half_next": (24, 8),
        "op_next": (32, 8),
        "decision_next": (40, 8),
        "crc": (48, 8),
    }
}


class Progress(NamedTuple):
    """The progress in a slot: a log offset, and offsets in the three queues."""

    scan_from: int = 0
    half_next: int = 0
    op_next: int = 0
    decision_next: int = 0


def keep_durable_slots(ours: Folder) -> None:
    """Clears the slots that only a successor in the same boot of the machine may use, durably.
    `ours` may have no slots. Raises OSError.
    """
    slots.keep_durable(ours, FILE, SLOT_SIZE)


class ProgressFile:
    """The mapped slots below the folder `ours`. Only the process `transactions` writes them: one of
    its threads the first two, another the durable ones. Raises OSError (ENOSPC).
    """

    def __init__(self, ours: Folder) -> None:
        self._slots = Slots(ours, FILE, MAGIC, len(Progress._fields), SLOT_SIZE)

    def newest(self, log_end: int) -> Progress | None:
        """The progress in the newest slot that is not ahead of a log which ends at `log_end`."""
        found = self._slots.newest(lambda words: words[0] <= log_end)
        return None if found is None else Progress(*found)

    def publish(self, progress: Progress) -> None:
        """Writes a slot for a successor, which survives the death of all processes."""
        self._slots.publish(progress)

    def make_durable(self, progress: Progress) -> None:
        """Writes a durable slot. The caller has made durable all that `progress` counts. Raises
        OSError.
        """
        self._slots.make_durable(progress)
