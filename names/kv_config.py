"""Key-value settings of a name server, by namespace. Operators put them; tools read them.

With a folder they are kept in its `kvConfig.json`, as RocketMQ keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..store.config import fastjson
from ..store.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "kvConfig.json"
#: Values of this namespace say which queues of an ordered topic exist; brokers are told them.
ORDERED_TOPICS: Final = "ORDER_TOPIC_CONFIG"
#: Bounds for what requests can store: settings, and bytes of all their texts.
MOST_SETTINGS: Final = 10_000
MOST_BYTES: Final = 16 << 20

_Table = dict[str, dict[str, str]]


class KvConfig:
    """The settings, kept in `folder` if one is given. Raises Corrupt for a file that cannot be
    read, OSError.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = None if folder is None else folder / FILE
        self._table: _Table = {}
        self._main_is_good = True
        #: What was wrong with the file, for the log.
        self.problem: str | None = None
        if self._path is not None:
            self._table, report = fastjson.load_file(self._path, _parse, dict)
            self._main_is_good, self.problem = report.main_is_good, report.problem

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def all_of(self, namespace: str) -> dict[str, str]:
        """The settings of a namespace."""
        return self._table.get(namespace, {})

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a value, durably. Raises StoreError if there are too many, OSError; nothing is
        changed then.
        """
        changed = {**self._table, namespace: {**self.all_of(namespace), key: value}}
        count = sum(map(len, changed.values()))
        size = sum(len(k) + len(v) for table in changed.values() for k, v in table.items())
        if count > MOST_SETTINGS or size > MOST_BYTES:
            raise StoreError(
                f"{count} key-value settings of {size} bytes: at most {MOST_SETTINGS} of "
                f"{MOST_BYTES}; delete some first"
            )
        self._keep(changed)

    def delete(self, namespace: str, key: str) -> None:
        """Removes a value, durably. Raises OSError; nothing is changed then."""
        rest = {name: value for name, value in self.all_of(namespace).items() if name != key}
        changed = {**self._table, namespace: rest}
        if not rest:
            del changed[namespace]
        self._keep(changed)

    def _keep(self, table: _Table) -> None:
        if self._path is not None:
            text = fastjson.dumps({"configTable": table})
            fastjson.save_file(self._path, text, main_is_good=self._main_is_good)
            self._main_is_good = True
        self._table = table


def _parse(text: str, _backup: fastjson.Parsed[_Table] | None) -> fastjson.Parsed[_Table]:
    found = fastjson.typed(fastjson.loads(text), dict, "the file").get("configTable", {})
    table: _Table = {}
    bad = []
    for namespace, values in fastjson.typed(found, dict, "configTable").items():
        for key, value in fastjson.typed(values, dict, f"namespace {namespace!a}").items():
            if isinstance(value, str):
                table.setdefault(str(namespace), {})[str(key)] = value
            else:
                bad.append(f"{namespace!a} {key!a} is no text")
    return fastjson.Parsed(table, [], bad)
