from collections.abc import Callable
from typing import Any

from ..loop._connection import FastPath

class CheckedFastPath(FastPath):
    def __init__(self, inner: FastPath, allows: Callable[..., Any]) -> None: ...
