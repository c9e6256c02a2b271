"""Producer processes under load, as a context, and what they know at the end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from support.checking.sent import Sent
from support.harness import PYTHON, eventually
from support.load.program import Order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from support.harness import StoreProcess

TESTS = Path(__file__).resolve().parents[2]
FINISH_S = 60.0


class Producers:
    """`count` processes that send to `topics` of a store until `finish`, at `rate` messages a
    second each; or `messages` messages each.

    With `ending` the store may go away under them. `first` numbers the producers, so that several
    rounds on one store can be told apart.
    """

    def __init__(
        self,
        store: StoreProcess,
        topics: Sequence[str],
        *,
        count: int = 3,
        first: int = 0,
        ring_size: int = 1 << 20,
        **order: Any,
    ) -> None:
        self.store = store
        folder = store.log_path.parent
        self.stop_file = folder / f"stop-{first}"
        self.reports = [folder / f"report-{first + i}.json" for i in range(count)]
        orders = [
            Order(
                str(store.path),
                first + i,
                list(topics),
                str(report),
                stop=str(self.stop_file),
                producer={"ring_size": ring_size, "timeout": 20.0},
                **order,
            )
            for i, report in enumerate(self.reports)
        ]
        environ = {**os.environ, "PYTHONPATH": str(TESTS)}
        program = (*PYTHON, "-m", "support.load.program")
        self.processes = [
            subprocess.Popen([*program, msgspec.json.encode(order)], env=environ)
            for order in orders
        ]

    def await_flow(self, records: int = 500) -> None:
        """Waits until every producer is there and messages flow."""
        control = self.store.control
        start = control.load("records")
        eventually(
            lambda: (
                control.load("sessions") >= len(self.processes)
                and control.load("records") > start + records
            ),
            "messages flow",
            20,
        )

    def finish(self) -> Sent:
        """Ends the load; what was sent."""
        self.stop_file.touch()
        deadline = time.monotonic() + FINISH_S
        sent = Sent()
        for process, report in zip(self.processes, self.reports, strict=True):
            assert process.wait(max(0.1, deadline - time.monotonic())) == 0
            sent.add(Sent.load(report))
        return sent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
