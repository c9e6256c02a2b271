"""A store that `silo serve` runs with a configuration file."""

from __future__ import annotations

from pathlib import Path

from .commands import SILO
from .harness import StoreProcess
from .small_settings import options


class ConfiguredStore(StoreProcess):
    """A store with a configuration file, which the test writes."""

    @property
    def file(self) -> Path:
        return self.path.with_suffix(".toml")

    @property
    def command(self) -> list[str]:
        where = ["--store", str(self.path), "--config", str(self.file)]
        return [*SILO, "serve", *where, *options(self.settings)]
