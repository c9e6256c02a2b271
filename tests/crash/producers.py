"""Producer processes under load, as a context, and what they report."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from crash.checking import Sent
from support.harness import PYTHON, WAIT_S, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from support.harness import StoreProcess

LOAD = Path(__file__).with_name("load.py")


class Producers:
    """`count` processes that send to `topics` of a store until `finish`, at `rate` messages a
    second each.

    With `ending` the store may go away under them. `first` numbers the producers, so that several
    rounds on one store can be told apart.
    """

    def __init__(
        self,
        store: StoreProcess,
        topics: Sequence[str],
        *,
        count: int = 3,
        rate: float = 2000.0,
        ending: bool = False,
        first: int = 0,
    ) -> None:
        self.store = store
        folder = store.log_path.parent
        self.stop_file = folder / f"stop-{first}"
        self.reports = [folder / f"report-{first + i}.json" for i in range(count)]
        environ = os.environ | {"ENDING": "1" if ending else "0"}
        self.processes = [
            subprocess.Popen(
                [
                    *PYTHON, LOAD, store.path, str(first + i), ",".join(topics), str(rate),
                    self.stop_file, report,
                ],
                env=environ,
            )
            for i, report in enumerate(self.reports)
        ]  # fmt: skip
        self.sent = Sent()

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
        deadline = time.monotonic() + WAIT_S
        for process, report in zip(self.processes, self.reports, strict=True):
            assert process.wait(max(0.1, deadline - time.monotonic())) == 0
            self.sent.add(json.loads(report.read_text()))
        return self.sent

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
