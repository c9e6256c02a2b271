"""HTML pages that hold everything they show: no script, nothing from a network.

Their content security policy forbids scripts and every request, in case a text escapes `escape`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from . import plot
from .plot import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--ink:#1f2328;--dim:#59636e;--grid:#d8dee4;--card:#f6f8fa;
--warn:#9a6700;--warnbg:#fff8c5}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--ink:#e6edf3;--dim:#a3adb8;--grid:#30363d;
--card:#161b22;--warn:#e3b341;--warnbg:#272115}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:16px;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:.3em 0}h2{font-size:1.15rem;margin:1.8em 0 .5em}
p{margin:.4em 0;max-width:75ch}.dim{color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:12px}
.plots>figure{margin:0;background:var(--card);border:1px solid var(--grid);border-radius:8px;
padding:8px}
.plots svg{display:block;width:100%;height:auto}
.plots>figure:only-child{max-width:720px}
.wide{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}
th{font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}
th:first-child,td:first-child{min-width:6em}
td small{display:block;color:var(--dim)}
.warn{background:var(--warnbg);color:var(--warn);border:1px solid var(--warn);border-radius:8px;
padding:8px 12px;margin:8px 0;max-width:none}
details{margin:.6em 0}summary{cursor:pointer;font-weight:600;padding:4px 0}
@media(max-width:500px){body{padding:10px}.plots{grid-template-columns:100%}
.plots>figure{padding:4px}th,td{padding:4px 6px}}
"""


def page(title: str, parts: Iterable[str]) -> bytes:
    """The page. `parts` are HTML in which all text is escaped."""
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{plot.STYLE}</style></head><body><main>\n"
    )
    return (head + "\n".join(parts) + "\n</main></body></html>\n").encode()


def heading(text: str) -> str:
    """The heading of a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph; `kind` is "", "dim" or "warn"."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A table; its columns from `numbers` on (0: none) are numbers. A line end in a cell begins a
    second, smaller line.
    """
    kinds = [' class="n"' if numbers and n >= numbers else "" for n in range(len(head))]
    lines = ["".join(f"<th{k}>{escape(one)}</th>" for k, one in zip(kinds, head, strict=True))]
    lines += [
        "".join(f"<td{k}>{_cell(one)}</td>" for k, one in zip(kinds, row, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table>{body}</table></div>'


def _cell(text: str) -> str:
    first, _, second = text.partition("\n")
    return escape(first) + (f"<small>{escape(second)}</small>" if second else "")


def plots(found: Iterable[plot.Plot]) -> str:
    """Plots side by side where there is room; "" without any."""
    figures = "".join(f"<figure>{one.svg()}</figure>" for one in found)
    return f'<div class="plots">{figures}</div>' if figures else ""


def folded(summary: str, parts: Iterable[str], *, is_open: bool = False) -> str:
    """Parts that a click opens."""
    inside = "\n".join(parts)
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>"
        f"{inside}</details>"
    )
