"""What the tests of producers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess


@pytest.fixture
def producer(store: StoreProcess) -> Iterator[Producer]:
    with Producer(store.path, timeout=10.0) as found:
        yield found
