"""The statistics as one HTML page: tables and plots, without references to other files.

Names of topics, tags and keys are not trusted: they are escaped in HTML, and plots take them as
plain text.
"""

from __future__ import annotations

import datetime as dt
import html
import io
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

_MOST_LINES: Final = 8
_MOST_ROWS: Final = 200
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #1c2733; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #dde3ea; }
th.text, td.text { text-align: left; }
td.text { max-width: 26rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } svg { max-width: 100%; height: auto; }
p.note { color: #5a6b7d; }
"""
_TITLES: Final = {
    "topics": "Topics",
    "tags": "Topics and tags",
    "buckets": "Over time",
    "keys": "Keys used most",
}


def render(tables: Mapping[str, Sequence[Row]], title: str) -> str:
    """The HTML page for the rows that `stats.collect` returns."""
    parts = [f"<h1>{html.escape(title)}</h1>", _summary(tables["topics"])]
    if tables["buckets"]:
        parts += [f"<h2>{name}</h2>{svg}" for name, svg in _plots(tables)]
    for name, heading in _TITLES.items():
        parts.append(f"<h2>{heading}</h2>{_table(tables[name])}")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _summary(topics: Sequence[Row]) -> str:
    if not topics:
        return "<p>No messages.</p>"
    messages = sum(row["messages"] for row in topics)
    size = sum(row["bytes"] for row in topics)
    first, last = min(row["first"] for row in topics), max(row["last"] for row in topics)
    return (
        f"<p>{messages:,} messages ({human_bytes(size)}) of {len(topics):,} topics, stored from "
        f"{text_of(first)} to {text_of(last)}.</p>"
    )


def human_bytes(count: float) -> str:
    """A number of bytes with a fitting unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def text_of(value: object) -> str:
    """A value as text for people."""
    if value is None:
        return "–"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return '<p class="note">Nothing.</p>'
    names = list(rows[0])
    texts = {name for name in names if name in {"topic", "tags", "key"}}

    def cell(kind: str, name: str, text: str) -> str:
        mark = ' class="text"' if name in texts else ""
        return f"<{kind}{mark}>{html.escape(text)}</{kind}>"

    lines = ["<tr>" + "".join(cell("th", name, name) for name in names) + "</tr>"]
    lines += [
        "<tr>" + "".join(cell("td", name, text_of(row[name])) for name in names) + "</tr>"
        for row in rows[:_MOST_ROWS]
    ]
    more = ""
    if len(rows) > _MOST_ROWS:
        more = f'<p class="note">The first {_MOST_ROWS} of {len(rows):,} rows.</p>'
    return '<div class="scroll"><table>' + "\n".join(lines) + f"</table></div>{more}"


def _plots(tables: Mapping[str, Sequence[Row]]) -> list[tuple[str, str]]:
    """(heading, SVG) of each plot."""
    largest = sorted(tables["topics"], key=lambda row: (-row["messages"], row["topic"]))
    names = [row["topic"] for row in largest[:_MOST_LINES]]
    series: dict[str, list[Row]] = defaultdict(list)
    for row in tables["buckets"]:
        series[row["topic"]].append(row)
    lines = {name: series[name] for name in names}
    return [
        ("Messages per second", _lines(lines, "messagesPerS", "messages/s")),
        ("Delay from producer to store, 95th percentile", _lines(lines, "delayP95", "ms")),
        ("Bytes by topic", _bars(largest[:_MOST_LINES])),
    ]


def _figure(height: float) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "silo"})
    figure = Figure(figsize=(11, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color="#dde3ea")
    return figure, axes


def _lines(series: Mapping[str, Sequence[Row]], what: str, unit: str) -> str:
    figure, axes = _figure(3.4)
    for name, rows in series.items():
        # matplotlib leaves a name with a leading underscore out of the legend.
        times, values = [row["bucket"] for row in rows], [row[what] for row in rows]
        axes.plot(times, values, marker="o", markersize=3, label=f"\u200b{name}")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    return _svg(figure)


def _bars(topics: Sequence[Row]) -> str:
    figure, axes = _figure(0.6 + 0.35 * len(topics))
    axes.grid(visible=False)
    axes.barh([row["topic"] for row in topics], [row["bytes"] / 2**20 for row in topics])
    axes.invert_yaxis()
    axes.set_xlabel("MiB")
    return _svg(figure)


def _svg(figure: Any) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
