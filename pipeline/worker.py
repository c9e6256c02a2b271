"""Spark's Python processes, which serve one task after the other."""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

#: Set by Spark in processes that it uses again.
_REUSED: Final = "SPARK_REUSE_WORKER"


@cache
def settle() -> None:
    """Once in each of Spark's processes: what is loaded by now is no garbage. Spark collects that
    after each task, and would look through all that pandas and pyarrow have made.
    """
    if _REUSED in os.environ:
        gc.freeze()
