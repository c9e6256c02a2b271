"""`Counts`: what requests came, and what became of them, since the broker's start."""

from __future__ import annotations

from typing import Final, Protocol

from ..wire.codes import ResponseCode

_KNOWN: Final = frozenset(ResponseCode)
#: In the place of a request's code: one that the broker does not serve.
UNKNOWN: Final = -1


class FastPath(Protocol):
    """A compiled path that serves requests by itself, and counts them."""

    def counted(self) -> tuple[dict[int, int], int, int]:
        """Requests by code, messages that were sent, messages that were pulled."""


class Counts:
    """Counts requests and refusals. Codes are of the broker's tables, so there are few."""

    def __init__(self) -> None:
        self._requests: dict[int, int] = {}
        #: Refused requests, by their code and that of the answer.
        self.refused: dict[tuple[int, int], int] = {}
        #: Messages in answers to pulls.
        self.pulled = 0
        #: All compiled paths: what they serve does not come by here.
        self.fast: list[FastPath] = []

    def request(self, code: int) -> None:
        """Counts a request."""
        self._requests[code] = self._requests.get(code, 0) + 1

    def refuse(self, code: int, answer: int) -> None:
        """Counts an answer that refuses a request."""
        known = answer if answer in _KNOWN else ResponseCode.SYSTEM_ERROR
        self.refused[code, known] = self.refused.get((code, known), 0) + 1

    def totals(self) -> tuple[dict[int, int], int, int]:
        """Requests by code, messages that compiled paths have sent, messages that were pulled."""
        requests, sent, pulled = dict(self._requests), 0, self.pulled
        for path in self.fast:
            more, its_sent, its_pulled = path.counted()
            for code, count in more.items():
                if count:
                    requests[code] = requests.get(code, 0) + count
            sent += its_sent
            pulled += its_pulled
        return requests, sent, pulled
