"""Spark's Python processes, which run one task after the other."""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

#: Set by Spark in processes that it uses again.
_REUSED: Final = "SPARK_REUSE_WORKER"


@cache
def settle() -> None:
    """Excludes the objects that are loaded now from garbage collection, once in each of Spark's
    processes. Spark collects garbage after each task, and would visit all objects of pandas and
    pyarrow each time.
    """
    if _REUSED in os.environ:
        gc.freeze()
