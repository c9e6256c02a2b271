"""Sizes drawn from distributions, and the bytes of bodies."""

from __future__ import annotations

import statistics
import zlib
from typing import TYPE_CHECKING

import pytest

from silomq.bench.harness.workload import draw
from silomq.bench.harness.workload.load import BadWorkload
from silomq.bench.harness.workload.workload import (
    Listed,
    Lognormal,
    Payload,
    Producers,
    Uniform,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_sizes_keep_their_bounds_and_are_equal_for_a_seed() -> None:
    uniform = draw.sizes(Uniform(least=100, most=300), 1)
    assert 100 <= min(uniform.values) < 110
    assert 290 < max(uniform.values) <= 300
    assert draw.sizes(Uniform(least=100, most=300), 1) == uniform
    assert draw.sizes(Uniform(least=100, most=300), 2) != uniform
    lognormal = draw.sizes(Lognormal(median=1000, sigma=1.0, most=5000), 1)
    assert max(lognormal.values) == 5000
    assert min(lognormal.values) >= 16
    assert 800 < statistics.median(lognormal.values) < 1200
    listed = draw.sizes(Listed(values=[16, 64], weights=[1, 3]), 1)
    assert (listed.values, listed.weights) == ([16, 64], [1, 3])
    assert draw.sizes(128, 1).values == [128]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_payload_is_as_compressible_as_it_says(share: float, tmp_path: Path) -> None:
    producers = Producers(payload=Payload(compressible=share))
    draw.write_payload(producers, 1, tmp_path / "payload")
    data = (tmp_path / "payload").read_bytes()[: 1 << 18]
    assert abs(len(zlib.compress(data)) / len(data) - (1 - share)) < 0.06


def test_a_payload_of_a_file_and_of_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "words").write_bytes(b"some words ")
    producers = Producers(payload=Payload(file=str(tmp_path / "words")))
    draw.write_payload(producers, 1, tmp_path / "payload")
    assert (tmp_path / "payload").read_bytes().startswith(b"some words some words ")
    table = pa.table({"name": ["a", "b"], "count": [1, 2]})
    pq.write_table(table, tmp_path / "rows")
    producers = Producers(payload=Payload(parquet=str(tmp_path / "rows")))
    draw.write_payload(producers, 1, tmp_path / "payload")
    rows = (tmp_path / "payload").read_bytes().splitlines()
    assert rows[:2] == [b'{"name": "a", "count": 1}', b'{"name": "b", "count": 2}']
    producers = Producers(payload=Payload(parquet=str(tmp_path / "rows"), column="nothing"))
    with pytest.raises(BadWorkload, match="nothing: one of name, count"):
        draw.write_payload(producers, 1, tmp_path / "payload")
    producers = Producers(payload=Payload(parquet=str(tmp_path / "words")))
    with pytest.raises(BadWorkload, match="no Parquet file"):
        draw.write_payload(producers, 1, tmp_path / "payload")
