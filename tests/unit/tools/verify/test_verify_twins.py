"""The compiled check finds what its plain twin finds, over stores with damage of many kinds."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from support import golden_stores, offline_stores, plain_verify
from support.damage import Damage

from silomq.tools.raw.files import BadInput
from silomq.tools.verify.verify import verify

SEED = 20_261_122
ROUNDS = 400 if os.environ.get("SILOMQ_LONG") == "1" else 4


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, golden_stores.Golden]:
    folder = tmp_path_factory.mktemp("golden")
    return {name: offline_stores.unpack(name, folder) for name in golden_stores.NAMES}


@pytest.mark.parametrize("name", golden_stores.NAMES)
@pytest.mark.parametrize("workers", [1, 2])
def test_findings_are_those_of_the_plain_twin(
    stores: dict[str, golden_stores.Golden],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    workers: int,
) -> None:
    monkeypatch.setattr("silomq.tools.verify.verify._SMALL_BYTES", 0)
    monkeypatch.setattr("silomq.tools.verify.steps._PIECE", 20_000)
    settings = offline_stores.settings()
    compared = 0
    for number in range(ROUNDS):
        path = tmp_path / f"store-{number}"
        shutil.copytree(stores[name].path, path)
        damage = Damage(path, random.Random(f"{SEED}-{name}-{workers}-{number}"))
        damage.some(3)
        try:
            plain = plain_verify.verify(path, settings)
        except BadInput:
            with pytest.raises(BadInput):
                verify(path, settings, workers=workers)
        else:
            found = verify(path, settings, workers=workers)
            assert found.findings == plain.findings, (number, damage.done)
            assert found.counts == plain.counts, (number, damage.done)
            compared += 1
        shutil.rmtree(path)
    assert compared > ROUNDS // 2
