"""A defect of the registry is answered and logged, and is not its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from silomq.actors.registry.registry import Registry
from silomq.shm.protocol.answers import Error
from silomq.shm.protocol.requests import AskTopics


@pytest.mark.parametrize("bug", [KeyError("x"), AssertionError(), RecursionError(), MemoryError()])
def test_a_request_that_meets_a_defect_is_answered_and_logged(bug: Exception) -> None:
    logged: list[dict[str, Any]] = []

    def fail(_connection: object, _request: object) -> NoReturn:
        raise bug

    registry: Any = SimpleNamespace(
        _do=fail, logger=SimpleNamespace(critical=lambda _event, **about: logged.append(about))
    )
    connection: Any = None
    answer, fds = Registry._do_or_refuse(registry, connection, AskTopics(0))
    assert isinstance(answer, Error)
    assert (answer.status, fds) == ("UNKNOWN_ERROR", ())
    assert type(bug).__name__ in answer.why
    assert [(about["request"], about["exc_info"]) for about in logged] == [("AskTopics", True)]
