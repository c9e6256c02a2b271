"""`Sources`: reads settings from a TOML file, from variables, and from NAME=VALUE."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from .kinds import Kind, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

#: A setting's name, its parsed value, and where that came from.
Found = tuple[str, Any, str]


class Sources:
    """Where the settings of one table of `kinds` come from. A variable is `prefix` and the name in
    upper case, if `is_setting` says so. `lists_all` names the file that lists all settings.

    Every method returns the settings that it found, each once. Raises SettingError for an unknown
    name, a value that is not allowed, and one setting under two names.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        prefix: str,
        is_setting: Callable[[str], bool],
        lists_all: str,
    ) -> None:
        self._kinds = kinds
        self._prefix = prefix
        self._is_setting = is_setting
        self._lists_all = lists_all

    def file(self, path: Path | None) -> list[Found]:
        """The settings in a TOML file, none without one. Raises OSError."""
        if path is None:
            return []
        with path.open("rb") as file:
            try:
                table = tomllib.load(file)
            except ValueError as error:  # not TOML, or not UTF-8
                raise SettingError(str(path), "", f"it must be a TOML file: {error}") from None
        return self._checked((key, value, str(path)) for key, value in table.items())

    def environment(self, environ: Mapping[str, str]) -> list[Found]:
        """The settings in variables."""
        found = [k for k in environ if k.startswith(self._prefix) and self._is_setting(k)]
        # RocketMQ's names are not tried: they are in camel case, and variables are in upper case.
        names = {self._prefix + name.upper(): name for name in self._kinds}
        return self._checked(
            (names.get(key, key), environ[key], f"environment {key}") for key in found
        )

    def overrides(self, overrides: Sequence[str]) -> list[Found]:
        """The settings in NAME=VALUE texts, of which the last counts."""
        pairs: dict[str, Found] = {}
        for text in overrides:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals:
                raise SettingError(text, "", "write NAME=VALUE", "--set")
            # The last value counts, as with other options that are given twice.
            pairs[self._name(key, value, "--set")] = (key, value, "--set")
        return self._checked(pairs.values())

    def knows(self, key: str) -> bool:
        """Whether a name, ours or RocketMQ's, is that of a setting of this table."""
        return key in self._kinds or any(key in kind.rocketmq for kind in self._kinds.values())

    def _checked(self, source: Iterable[Found]) -> list[Found]:
        result: dict[str, Found] = {}
        for key, raw, origin in source:
            name = self._name(key, raw, origin)
            if name in result:
                raise SettingError(key, raw, f"{name} is given twice", origin)
            kind = self._kinds[name]
            try:
                result[name] = (name, kind.parse(raw), origin)
            except ValueError:
                raise SettingError(key, raw, kind.range, origin) from None
        return list(result.values())

    def _name(self, key: str, raw: object, origin: str) -> str:
        if key in self._kinds:
            return key
        for name, kind in self._kinds.items():
            if key in kind.rocketmq:
                return name
        hint = self._hint(key)
        raise SettingError(ascii(key)[1:-1], raw, f"there is no such setting{hint}", origin)

    def _hint(self, key: str) -> str:
        import difflib  # not at the top: only this message needs it

        ours = {alias.lower(): alias for kind in self._kinds.values() for alias in kind.rocketmq}
        ours.update({name: name for name in self._kinds})
        if key.startswith(self._prefix):
            ours = {name: self._prefix + name.upper() for name in self._kinds}
            key = key.removeprefix(self._prefix)
        matches = difflib.get_close_matches(key.lower(), list(ours), n=3)
        close = [ours[match] for match in matches]
        if close:
            return f"; did you mean {' or '.join(close)}?"
        return f"; {self._lists_all} lists all settings"
