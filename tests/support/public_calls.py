"""Every public call of the package, found by walking over `silomq.__all__`."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
from typing import TYPE_CHECKING, NamedTuple

from tidy.sources import ROOT

import silomq
from silomq import Listener, ReplyFuture, SendFuture, SendResult, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Classes whose objects come from calls: their own constructors are no public calls.
HANDED_OUT = (SendResult, SendFuture, ReplyFuture, Listener, Transaction)


class Call(NamedTuple):
    """A public method, or a constructor."""

    kind: type
    method: str

    @property
    def name(self) -> str:
        return f"{self.kind.__name__}.{self.method}"

    @property
    def arguments(self) -> dict[str, bool]:
        """The names of the arguments, and whether each has a default."""
        target = self.kind if self.method == "__init__" else getattr(self.kind, self.method)
        try:
            found = inspect.signature(target).parameters
        except ValueError:  # a compiled class has none
            return in_stub(self.kind, self.method)
        return {
            name: parameter.default is not parameter.empty
            for name, parameter in found.items()
            if name != "self"
        }


def in_stub(kind: type, method: str) -> dict[str, bool]:
    """The arguments of a compiled method, from its module's stub."""
    stub = ROOT / f"{kind.__module__.removeprefix('silomq.').replace('.', '/')}.pyi"
    for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            found = next(
                n.args for n in node.body if isinstance(n, ast.FunctionDef) and n.name == method
            )
            names = [argument.arg for argument in found.args][1:]
            required = len(names) - len(found.defaults)
            return {name: number >= required for number, name in enumerate(names)}
    raise AssertionError(f"{stub} does not have {kind.__name__}.{method}")


def public_calls() -> Iterator[Call]:
    for name in silomq.__all__:
        kind = getattr(silomq, name)
        if not isinstance(kind, type) or issubclass(kind, BaseException | enum.Enum):
            continue
        if kind not in HANDED_OUT and not dataclasses.is_dataclass(kind):
            yield Call(kind, "__init__")
        for method in dir(kind):
            owner = next(k for k in kind.__mro__ if method in vars(k))
            ours = owner.__module__.startswith("silomq")
            above = [k for k in kind.__mro__[1:] if k.__name__ in silomq.__all__]
            ours &= not any(issubclass(k, owner) for k in above)  # else it is tried there
            if ours and not method.startswith("_") and callable(getattr(kind, method)):
                yield Call(kind, method)


CALLS = {call.name: call for call in public_calls()}
