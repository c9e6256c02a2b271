"""What all tests share. Helper modules lie beside the tests: `from tidy.sources import ROOT`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: Variables with our prefix that are for the tests themselves; others would change settings.
OURS = ("SILOMQ_FAULT_BUILD", "SILOMQ_LONG")


def pytest_configure() -> None:
    """Takes settings out of the environment: a developer's own must not change what is tested."""
    for name in list(os.environ):
        if name.startswith("SILOMQ_") and name not in OURS:
            del os.environ[name]


def pytest_report_header() -> list[str]:
    """Says which silomq is tested: the installed one, never the folder pytest runs in."""
    import silomq

    place = Path(silomq.__path__[0])
    faults = os.environ.get("SILOMQ_FAULT_BUILD", "none, crash tests will be skipped")
    return [f"silomq: {place}", f"fault build: {faults}"]


@pytest.fixture(scope="session")
def fault_build() -> Path:
    """A folder for PYTHONPATH whose silomq can be told, by SILOMQ_FAULT, to die at a place."""
    folder = os.environ.get("SILOMQ_FAULT_BUILD")
    if not folder:
        pytest.skip("no SILOMQ_FAULT_BUILD: `make fault-build` makes it, `make test` sets it")
    return Path(folder)


@pytest.fixture(scope="session")
def long_forms() -> bool:
    """Whether to run the long form of a test: `make torture`."""
    return os.environ.get("SILOMQ_LONG") == "1"
