"""The workloads that are shipped: the TOML files beside this one, by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Their names, in order."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def find(name: str) -> Path | None:
    """The file of a shipped workload."""
    return _FOLDER / f"{name}.toml" if name in names() else None


def descriptions() -> dict[str, str]:
    """What each of them shows."""
    return {
        name: str(tomllib.loads((_FOLDER / f"{name}.toml").read_text())["description"])
        for name in names()
    }
