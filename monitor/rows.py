"""`Rows`: which names have rows of their own, when there are more names than rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The row in which the values of all other names are summed. No topic or group has this name: it
#: has a character that neither may have.
OTHER: Final = "(other)"


class Rows:
    """At most `most` names have a row of their own. A name keeps its row until it is gone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: dict[str, None] = {}

    def split(self, values: Mapping[str, float]) -> tuple[dict[str, float], int]:
        """The rows for these values, and the number of names that are summed in OTHER. The largest
        values get the rows that are free.
        """
        for gone in self._named.keys() - values.keys():
            del self._named[gone]
        free = self._most - len(self._named)
        new = sorted((n for n in values if n not in self._named), key=lambda n: (-values[n], n))
        self._named.update(dict.fromkeys(new[:free]))
        rows = {name: values[name] for name in self._named}
        rest = new[free:] if free > 0 else new
        if rest:
            rows[OTHER] = sum(values[name] for name in rest)
        return rows, len(rest)
