"""Tables for the terminal, and lengths of time in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...conf.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def plain_table(title: str, *columns: str, right: tuple[int, ...] = ()) -> Table:
    """A table for `output()`. An empty title is not printed. `right` are the columns of numbers."""
    from rich import box
    from rich.table import Table

    class SafeTable(Table):
        """Escapes its cells before their widths are measured."""

        def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
            shown = (printable(cell, "\n") if isinstance(cell, str) else cell for cell in cells)
            super().add_row(*shown, **options)

    table = SafeTable(
        title=printable(title) or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.show_edge = False
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    return table


def duration(seconds: float) -> str:
    """A length of time for people: 42 s, 3 min, 5 h, 2 d."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
