"""What is drawn before the start: sizes from their distribution, and the bytes of bodies."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import TYPE_CHECKING

from ..load.protocol import Sizes
from .load import BadWorkload
from .workload import LEAST_BODY, Listed, Lognormal, Uniform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .workload import Payload, Producers

_DRAWN = 1024
_LEAST_BYTES = 4 << 20
_PIECE = 256


def sizes(size: int | Uniform | Lognormal | Listed, seed: int) -> Sizes:
    """The sizes of a distribution, equal for all workers."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    match size:
        case Uniform():
            least, most = sorted((size.least, size.most))
            return Sizes([chance.randint(least, most) for _ in range(_DRAWN)])
        case Lognormal():
            drawn = (size.median * chance.lognormvariate(0, size.sigma) for _ in range(_DRAWN))
            return Sizes([int(min(size.most, max(LEAST_BODY, one))) for one in drawn])
        case Listed():
            return Sizes(size.values, size.weights)
    return Sizes([size])


def write_payload(producers: Producers, seed: int, path: Path) -> None:
    """Writes the bytes that bodies are cut from. Raises BadWorkload, OSError."""
    most = max(sizes(producers.size, seed).values)
    want = max(_LEAST_BYTES, 2 * most)
    data = bytearray()
    given = producers.payload
    if given.file or given.parquet:
        for piece in _pieces(given, want):
            data += piece
            if len(data) >= want:
                break
        if not data:
            raise BadWorkload(f"{given.file or given.parquet}: it holds nothing to send")
        data *= -(-want // len(data))
    else:
        chance = random.Random(seed)  # noqa: S311 - no secret
        data += _random(given.compressible, want, chance)
    path.write_bytes(data)


def _random(compressible: float, size: int, chance: random.Random) -> bytes:
    """Random bytes; of each piece the share `compressible` is one letter."""
    same = round(_PIECE * compressible)
    pieces = (
        chance.randbytes(_PIECE - same) + chance.choice(string.ascii_letters).encode() * same
        for _ in range(-(-size // _PIECE))
    )
    return b"".join(pieces)


def _pieces(given: Payload, most: int) -> Iterator[bytes]:
    """The bytes of a file, `most` of them, or of rows, one by one. Raises BadWorkload, OSError."""
    if given.file:
        with Path(given.file).open("rb") as plain:
            yield plain.read(most)
        return
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise BadWorkload("producers.payload.parquet needs pyarrow: silomq[bench]") from None
    columns = [given.column] if given.column else None
    try:
        with pq.ParquetFile(given.parquet) as file:
            if given.column and given.column not in file.schema_arrow.names:
                names = ", ".join(file.schema_arrow.names)
                raise BadWorkload(f"producers.payload.column: {given.column}: one of {names}")
            for batch in file.iter_batches(columns=columns):
                for row in batch.to_pylist():
                    yield _row(row[given.column] if given.column else row)
    except pa.ArrowInvalid as error:
        raise BadWorkload(f"{given.parquet}: no Parquet file: {error}") from None


def _row(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.encode() + b"\n"
