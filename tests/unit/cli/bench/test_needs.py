"""What `silo bench` says without the libraries that only it needs."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from silomq.cli.bench.needs import check_libraries
from silomq.cli.shared.outcome import Failure


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ({"hdrh"}, "silo bench needs hdrhistogram: "),
        ({"hdrh", "numpy"}, "silo bench needs hdrhistogram and numpy: "),
    ],
)
def test_a_missing_library_is_named(
    lacking: set[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        return None if name in lacking else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(Failure, match=said) as caught:
        check_libraries()
    assert "pip install 'silomq[bench]'" in str(caught.value)


def test_with_all_of_them_nothing_is_said() -> None:
    check_libraries()
