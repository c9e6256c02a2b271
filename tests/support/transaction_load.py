"""Transactions of a real store: many of each kind, and what must come of them."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

from support.deliveries import collect
from support.harness import StoreProcess, eventually

from silomq import StoreError, TransactionProducer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from silomq import CheckedMessage

#: What is done about each: by its number modulo their count.
KINDS = ("commit", "rollback", "forgotten, commit", "commit", "forgotten, rollback")
TOPIC, GROUP = "t", "pg"
NOTHING_WAITS = 2**64 - 1
TIMEOUT_MS, INTERVAL_MS = 300, 300
QUICK: dict[str, Any] = {
    "transaction_timeout_ms": TIMEOUT_MS,
    "transaction_check_interval_ms": INTERVAL_MS,
    "transaction_check_max": 1000,
}
_PATIENCE_S = 60.0


class Transactions:
    """Begins transactions and decides about them. `check` answers for those that it has forgotten,
    and for those whose beginning failed: they are rolled back.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.stored_ms: dict[int, int] = {}
        self.asked_ms: dict[int, int] = {}
        self.asked: list[tuple[int, int]] = []
        self.next = 0
        self.producer = TransactionProducer(
            store, GROUP, check=self.check, timeout=15.0, on_restart="retry"
        )

    def kind(self, number: int) -> str:
        return KINDS[number % len(KINDS)]

    def check(self, message: CheckedMessage) -> bool | None:
        number = int(message.body)
        self.asked.append((number, message.checks))
        self.asked_ms.setdefault(number, int(time.time() * 1000))
        return "commit" in self.kind(number) if number in self.stored_ms else False

    def run(self, count: int, pause_s: float = 0.001) -> None:
        """Begins so many, and decides about each as its kind says."""
        for _ in range(count):
            number, self.next = self.next, self.next + 1
            kind = self.kind(number)
            with contextlib.suppress(StoreError):
                transaction = self.producer.begin(TOPIC, b"%d" % number, queue=number % 4)
                self.stored_ms[number] = transaction.half.store_timestamp
                if kind == "commit":
                    decide = transaction.commit
                elif kind == "rollback":
                    decide = transaction.rollback
                else:
                    continue
                with contextlib.suppress(StoreError):
                    decide()  # without an answer its check decides
            time.sleep(pause_s)

    @property
    def committed(self) -> set[bytes]:
        return {b"%d" % number for number in self.stored_ms if "commit" in self.kind(number)}

    def await_end(self, store: StoreProcess, print_as: str = "", within_ms: int = 20_000) -> None:
        """Each committed message comes once, no other comes. Each forgotten one was checked in
        time, and nothing is open at the end.
        """
        found = collect(self.store, TOPIC, self.committed, timeout=_PATIENCE_S, grace=1.0)
        found.check(dict.fromkeys(self.committed, 0))
        forgotten = [n for n in self.stored_ms if self.kind(n).startswith("forgotten")]
        eventually(lambda: all(n in self.asked_ms for n in forgotten), "all are checked")
        late = sorted(self.asked_ms[n] - self.stored_ms[n] - TIMEOUT_MS for n in forgotten)
        if late:
            assert late[0] >= 0, f"a check came {-late[0]} ms early"
            assert late[-1] < within_ms, f"a check came {late[-1]} ms late"
        eventually(
            lambda: store.control.load("trans_floor") == NOTHING_WAITS, "nothing is open", 30.0
        )
        if print_as:
            print(
                f"{print_as}: {self.next} transactions, {len(self.asked)} checks, late {late[-1:]}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.producer.close()
