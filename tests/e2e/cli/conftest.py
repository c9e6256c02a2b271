"""What the tests of commands share: the folder of a running store with the shipped limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One store for all tests of a module: each uses topics of its own."""
    with StoreProcess(tmp_path_factory.mktemp("cli") / "store", base=SHIPPED_LIMITS) as found:
        yield found.path
