"""Plots as SVG: lines over an axis, with ranges, marked times, and a legend.

Nothing in them runs, and nothing is loaded. Colours are variables of the page's style, so that one
plot is right on a bright and on a dark page. `standalone` gives a file that brings its style.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ....conf.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .axis import Axis

WIDTH: Final = 480
_HEIGHT: Final = 210  # of the area with the lines
_LEFT, _RIGHT, _TOP, _BELOW = 66, 14, 26, 36
#: The width of a letter, px: an estimate, since no font is at hand.
_LETTER: Final = 6.6
_LEGEND_ROW: Final = 16
COLOURS: Final = 8
#: More lines than these cannot be told apart.
MOST_LINES: Final = 16
_POINTS_WITH_CIRCLES: Final = 24
_NAME: Final = 42

STYLE: Final = """
svg.plot{--c0:#1f6feb;--c1:#c2410c;--c2:#15803d;--c3:#9333ea;--c4:#b8860b;--c5:#0e7490;--c6:#be185d;
--c7:#57606a;--ink:#1f2328;--dim:#59636e;--grid:#d8dee4;--fault:#cf222e;--warm:#818b98;
font:11.5px system-ui,sans-serif;fill:var(--ink)}
@media(prefers-color-scheme:dark){svg.plot{--c0:#58a6ff;--c1:#ff9b57;--c2:#4ac26b;--c3:#c297ff;
--c4:#e3b341;--c5:#45c8dc;--c6:#ff7eb6;--c7:#a3adb8;--ink:#e6edf3;--dim:#a3adb8;--grid:#30363d;
--fault:#ff7b72;--warm:#6e7681}}
svg.plot .title{font-weight:600;font-size:13px}svg.plot .dim{fill:var(--dim)}
svg.plot .grid{stroke:var(--grid)}svg.plot .line{fill:none;stroke-width:1.6;stroke-linejoin:round}
svg.plot .fault{fill:var(--fault);fill-opacity:.14;stroke:var(--fault);stroke-opacity:.6}
svg.plot .warm{fill:var(--warm);fill-opacity:.13}
"""


def escape(text: object) -> str:
    """Text for HTML and SVG. Names come from files: what is not printable becomes visible too."""
    return html.escape(printable(str(text)))


@dataclass(frozen=True)
class Line:
    """Points from left to right; None leaves a gap. `ranges` has (x, least, greatest)."""

    name: str
    points: Sequence[tuple[float, float | None]]
    ranges: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Mark:
    """A time that is marked from `start` to `end`: a fault, or the warm-up."""

    start: float
    end: float
    what: str
    is_fault: bool = True


@dataclass(frozen=True)
class Plot:
    """What is drawn. `x_name` stands below the axis."""

    title: str
    x: Axis
    y: Axis
    x_name: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = field(default=())

    def svg(self) -> str:
        """An `svg` element for a page that has STYLE."""
        return self._element("")

    def standalone(self) -> str:
        """An SVG file."""
        return self._element(
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="none"/>'
        )

    def _element(self, before: str) -> str:
        shown = self.lines[:MOST_LINES]
        entries = _legend(shown, self.marks, len(self.lines) - len(shown))
        height = _TOP + _HEIGHT + _BELOW + entries[1]
        body = [
            '<svg class="plot" xmlns="http://www.w3.org/2000/svg" role="img" ',
            f'viewBox="0 0 {WIDTH} {height}" aria-label="{escape(self.title)}">',
            before,
            f'<text class="title" x="4" y="14">{escape(self.title)}</text>',
            *(self._mark(one) for one in self.marks),
            *self._grid(),
            *(part for number, line in enumerate(shown) for part in self._line(number, line)),
            *entries[0],
            "</svg>",
        ]
        return "".join(body)

    def _x(self, value: float) -> float | None:
        at = self.x.place(value)
        return None if at is None else _LEFT + min(1.0, max(0.0, at)) * (WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float | None:
        at = self.y.place(value)
        return None if at is None else _TOP + (1 - at) * _HEIGHT

    def _grid(self) -> list[str]:
        bottom, right = _TOP + _HEIGHT, WIDTH - _RIGHT
        found = []
        for at, label in self.y.ticks():
            y = _TOP + (1 - at) * _HEIGHT
            found.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            found.append(
                f'<text class="dim" text-anchor="end" x="{_LEFT - 5}" y="{y + 4:.1f}">'
                f"{escape(label)}</text>"
            )
        free = 0.0
        for at, label in self.x.ticks():
            x = _LEFT + at * (right - _LEFT)
            found.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
            half = len(label) * _LETTER / 2
            middle = min(x, WIDTH - half)
            if middle - half >= free:  # else it would touch the label before
                free = middle + half + _LETTER
                found.append(
                    f'<text class="dim" text-anchor="middle" x="{middle:.1f}" y="{bottom + 15}">'
                    f"{escape(label)}</text>"
                )
        found.append(
            f'<text class="dim" text-anchor="middle" x="{(_LEFT + right) / 2}" y="{bottom + 30}">'
            f"{escape(self.x_name)}</text>"
        )
        return found

    def _mark(self, mark: Mark) -> str:
        start, end = self._x(mark.start), self._x(max(mark.start, mark.end))
        if start is None or end is None:
            return ""
        kind = "fault" if mark.is_fault else "warm"
        return (
            f'<rect class="{kind}" x="{start:.1f}" y="{_TOP}" width="{max(0.5, end - start):.1f}" '
            f'height="{_HEIGHT}"><title>{escape(mark.what)}</title></rect>'
        )

    def _line(self, number: int, line: Line) -> list[str]:
        colour = f"var(--c{number % COLOURS})"
        dashed = ' stroke-dasharray="5 3"' if number >= COLOURS else ""
        found = []
        for x, least, most in line.ranges:
            at, top, foot = self._x(x), self._y(most), self._y(least)
            if at is not None and top is not None and foot is not None:
                path = f"M{at:.1f} {top:.1f}V{foot:.1f}"
                found.append(f'<path d="{path}" stroke="{colour}" stroke-width="4" opacity=".3"/>')
        parts = list(self._parts(line.points))
        few = sum(map(len, parts)) <= _POINTS_WITH_CIRCLES
        for part in parts:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in part)
            found.append(f'<polyline class="line" stroke="{colour}"{dashed} points="{points}"/>')
            if few or len(part) == 1:
                found += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>'
                          for x, y in part]  # fmt: skip
        if found:
            found[0] = f"<g><title>{escape(line.name)}</title>{found[0]}"
            found.append("</g>")
        return found

    def _parts(
        self, points: Sequence[tuple[float, float | None]]
    ) -> list[list[tuple[float, float]]]:
        parts: list[list[tuple[float, float]]] = [[]]
        for x, y in points:
            at, up = self._x(x), None if y is None else self._y(y)
            if at is not None and up is not None:
                parts[-1].append((at, up))
            elif parts[-1]:
                parts.append([])
        return [part for part in parts if part]


def _legend(lines: Sequence[Line], marks: Sequence[Mark], left_out: int) -> tuple[list[str], int]:
    """The legend below the plot, in rows, and its height."""
    entries = [
        (line.name, f'<path class="line" stroke="var(--c{n % COLOURS})" d="M{{x}} {{y}}h14"'
         + (' stroke-dasharray="5 3"' if n >= COLOURS else "") + "/>")
        for n, line in enumerate(lines)
    ]  # fmt: skip
    for kind, name, wanted in (("fault", "fault", True), ("warm", "warm-up", False)):
        if any(mark.is_fault is wanted for mark in marks):
            box = f'<rect class="{kind}" x="{{x}}" y="{{top}}" width="14" height="9"/>'
            entries.append((name, box))
    if left_out:
        entries.append((f"and {left_out} more", ""))
    found = []
    x, y = 8.0, _TOP + _HEIGHT + _BELOW + 8
    for name, drawn in entries:
        text = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        width = 20 + len(text) * _LETTER + 12
        if x > 8 and x + width > WIDTH:
            x, y = 8.0, y + _LEGEND_ROW
        sign = drawn.format(x=f"{x:.1f}", y=y, top=y - 5)
        found.append(f'{sign}<text x="{x + 19:.1f}" y="{y + 4}">{escape(text)}</text>')
        x += width
    return found, math.ceil(y - (_TOP + _HEIGHT + _BELOW) + 10)


def thinned(
    points: Sequence[tuple[float, float | None]], most: int
) -> list[tuple[float, float | None]]:
    """At most some `most` points: of each group of neighbours the least and the greatest, so that
    no peak is lost.
    """
    if len(points) <= most:
        return [*points]
    size = math.ceil(2 * len(points) / most)
    found: list[tuple[float, float | None]] = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        known = [(x, y) for x, y in group if y is not None]
        if not known:
            found.append(group[0])
            continue
        found += sorted({min(known, key=lambda p: p[1]), max(known, key=lambda p: p[1])})
    return found
