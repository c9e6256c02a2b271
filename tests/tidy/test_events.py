"""Each line of a store's log has an event, and each event has one place in the source: whoever
finds a line in a log finds the code that wrote it, and a filter by event finds one kind of line.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tidy.sources import nodes, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Packages whose processes log by `conf/logging.py`. Clients log into their user's `logging`.
PACKAGES: Final = ("actors", "broker", "names", "store", "supervisor")
LEVELS: Final = frozenset(("debug", "info", "warning", "error", "critical", "exception"))
#: Events that two places write, because they do the same for two kinds of things.
SHARED: Final[dict[str, str]] = {}
#: Places that write an event which their caller has chosen from its own constants.
CHOSEN: Final = {"broker/loop/reasons.py": "self._what"}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that write a line."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if node.func.attr in LEVELS and owner.removesuffix("()").endswith("logger"):
                yield node


def written() -> Iterator[tuple[str, int, ast.expr]]:
    """All places that write a line: file, line, event."""
    for path in sources(".py"):
        if path.parts[0] in PACKAGES:
            tree = parsed(path)
            for call in calls(tree):
                assert call.args, f"{path}:{call.lineno} writes a line without an event"
                yield str(path), call.lineno, call.args[0]


def test_calls_that_write_a_line_are_found() -> None:
    text = """
self.logger.info("a", x=1)
self._logger.error("b")
get_logger().warning("c")
self._parts.logger.critical(d)
self.log.error("no logger of a store")
logger.loads("no level")
"""
    found = [ast.unparse(call.args[0]) for call in calls(ast.parse(text))]
    assert found == ["'a'", "'b'", "'c'", "d"]


def test_each_event_is_a_constant() -> None:
    variable = [
        f"{path}:{line} {ast.unparse(event)}"
        for path, line, event in written()
        if not isinstance(event, ast.Constant) and CHOSEN.get(path) != ast.unparse(event)
    ]
    assert variable == []


def test_each_event_has_one_place() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, line, event in written():
        if isinstance(event, ast.Constant) and isinstance(event.value, str):
            places[event.value].append(f"{path}:{line}")
    twice = {event: where for event, where in places.items() if len(where) > 1}
    assert {e: w for e, w in twice.items() if e not in SHARED} == {}
    assert set(SHARED) <= set(twice), "an event that is listed has one place by now"
    assert len(places) > 80
