"""The durable begin of the commit log, in `silomq/log_begin`: clean has removed nothing behind it.

Without it a start could not tell files that clean removed from files that were lost. A start writes
it before the first append, and clean before it removes files. Both write it in place, because a
full disk has no room for a new file. The text of one sector is written as a whole or not at all; a
damaged text counts as none, and then a start takes the first file for the begin.

Layout log_begin:

======  ====  ====  =====  =======
offset  size  type  field  meaning
======  ====  ====  =====  =======
0       20    text  begin  the log's first offset, in decimal digits
20      1     text  space  " "
21      8     text  crc    CRC-32C of the twenty digits, in hex digits
29      1     text  end    a line feed
======  ====  ====  =====  =======
"""

from __future__ import annotations

from ...shm._checksum import crc32c
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_name

LOG_BEGIN = "log_begin"
LAYOUTS = {"log_begin": {"begin": (0, 20), "space": (20, 1), "crc": (21, 8), "end": (29, 1)}}
_SIZE = 30


def read(ours: Folder) -> int | None:
    """The durable begin of the log; None if it is not known."""
    try:
        with ours.file(LOG_BEGIN) as fd:
            data = disk.read_at(fd, _SIZE, 0)
    except FileNotFoundError:
        return None
    digits = data[:20]
    return int(digits) if digits.isdigit() and data == _encode(int(digits)) else None


def write(ours: Folder, begin: int) -> None:
    """Notes that the log may begin at offset `begin` from now on, durably. Raises OSError."""
    with ours.file(LOG_BEGIN, write=True, create=True) as fd:
        is_new = disk.size_of(fd) < _SIZE
        disk.allocate(fd, 0, _SIZE)
        disk.write_at(fd, _encode(begin), 0)
        disk.sync_data(fd)
    if is_new:
        ours.sync()


def _encode(begin: int) -> bytes:
    digits = file_name(begin).encode()
    return b"%s %08x\n" % (digits, crc32c(digits))
