"""The syntax trees of the sources are read once for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tidy import sources

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """Forgets them at the end: they are hundreds of megabytes."""
    yield
    sources.nodes.cache_clear()
    sources.parsed.cache_clear()
