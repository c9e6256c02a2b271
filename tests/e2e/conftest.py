"""What the end-to-end tests share: one store for a module, with topics of its own for each test.

A test that kills, fills or stops a store starts one of its own.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess
from support.kill_points import fault_build

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fault_build"]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    """The settings of the module's store, besides SMALL: none. A module may say others."""
    return {}


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, store_settings: dict[str, Any]
) -> Iterator[StoreProcess]:
    """A running store for all tests of a module."""
    with StoreProcess(tmp_path_factory.mktemp("store") / "store", **store_settings) as found:
        yield found


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses; the store does not have it yet."""
    return f"topic{next(_numbers)}"
