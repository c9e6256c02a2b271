"""Compares commit-log files with their seals, which the store wrote when they were full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...store.commitlog.log import CommitLog
from ...store.commitlog.seals import SEALS, Seal, Seals, seal_of
from ...store.disk.paths import OURS, file_name
from ...store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...store.disk.paths import StoreFolders
    from .findings import LogPiece

#: The polynomial of CRC-32C (Castagnoli) and x^8, bit 31 the constant term.
_POLYNOMIAL: Final = 0x82F63B78
_X8: Final = 1 << 23


def sealed_bases(folders: StoreFolders) -> frozenset[int]:
    """The log addresses of the files that have a seal."""
    if SEALS not in folders.ours.names():
        return frozenset()
    with Seals(folders) as seals:
        return frozenset(seals.bases())


def measured_seal(pieces: Sequence[LogPiece], file_size: int) -> Seal | None:
    """The seal of a file of which these are all pieces, in order. None if it held anything but good
    records: then `seal_of` says what a seal would count.
    """
    if not all(piece.plain for piece in pieces):
        return None
    crc = 0
    for piece in pieces:
        crc = joined_crc(crc, piece.crc, piece.end - piece.base - piece.start)
    with_records = [piece for piece in pieces if piece.records]
    if not with_records:
        return None
    first, last = with_records[0], with_records[-1]
    records = sum(piece.records for piece in pieces)
    return Seal(
        file_size, f"{crc:08x}", records, first.base, last.last_record, first.first_ms, last.last_ms
    )


def joined_crc(first: int, second: int, size: int) -> int:
    """The CRC-32C of two texts behind each other, from theirs and the size (bytes) of the second.

    The first one's checksum is that of the whole if zeros follow, without the inversions: then each
    byte multiplies it by x^8 modulo the polynomial. (zlib's `crc32_combine` has the method.)
    """
    power, square = 1 << 31, _X8
    while size:
        if size & 1:
            power = _times(power, square)
        square = _times(square, square)
        size >>= 1
    return _times(power, first) ^ second


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo that of CRC-32C, bit 31 the constant term."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def check_seals(
    folders: StoreFolders, file_size: int, measured: Mapping[int, Seal | None]
) -> Iterator[tuple[str, int, str]]:
    """Compares sealed files with their seals. Yields (path, position, what is wrong). `measured`
    has the seals that were computed while the files were checked.

    A sealed file that is missing is no finding: clean removes a file first and its seal later.
    """
    if SEALS not in folders.ours.names():
        return
    log = CommitLog(folders, file_size)
    with Seals(folders) as seals:
        yield from _wrong(folders, log, seals, measured)


def _wrong(
    folders: StoreFolders, log: CommitLog, seals: Seals, measured: Mapping[int, Seal | None]
) -> Iterator[tuple[str, int, str]]:
    there = set(log.bases())
    for base in seals.bases():
        if base not in there:
            continue
        path = f"{folders.root.path}/{OURS}/{SEALS}/{file_name(base)}.json"
        try:
            said, now = seals.read(base), measured.get(base) or seal_of(log, base)
        except StoreError as error:
            yield path, 0, str(error)
            continue
        if said is not None and said != now:
            names = [
                name for name in said.__struct_fields__ if getattr(said, name) != getattr(now, name)
            ]
            what = f"the file is not what was sealed: {', '.join(names)} differ"
            yield f"{folders.commit_log.path}/{file_name(base)}", base, what
