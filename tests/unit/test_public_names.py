"""The package's public names, which are loaded when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import silomq


def test_every_name_is_there() -> None:
    for name in silomq.__all__:
        assert getattr(silomq, name) is not None
        assert name in dir(silomq)
    assert set(silomq._PLACE_OF) == set(silomq.__all__)
    with pytest.raises(AttributeError, match="'silomq' has no attribute 'Consumr'"):
        _ = silomq.Consumr  # type: ignore[attr-defined]


def test_the_supervisor_loads_no_client() -> None:
    code = "import sys, silomq.supervisor.main; print([m for m in sys.modules if 'client' in m])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
