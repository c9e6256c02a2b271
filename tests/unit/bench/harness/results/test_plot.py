"""The SVG of plots: gaps, marks, legends, and texts that are no markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from silomq.bench.harness.results.amounts import digits
from silomq.bench.harness.results.axis import Axis
from silomq.bench.harness.results.plot import MOST_LINES, Line, Mark, Plot, thinned


def plot(*lines: Line, marks: tuple[Mark, ...] = (), title: str = "t") -> Plot:
    x, y = (Axis([0.0, 10.0], digits) for _ in range(2))
    return Plot(title, x, y, "x", lines, marks)


def test_a_gap_divides_a_line() -> None:
    points = [(0.0, 0.0), (1.0, 1.0), (2.0, None), (3.0, 3.0)]
    text = plot(Line("one", points)).svg()
    assert [len(one.split()) for one in re.findall(r'points="([^"]*)"', text)] == [2, 1]


def test_values_lie_where_the_axes_say() -> None:
    text = plot(Line("one", [(0.0, 0.0), (10.0, 10.0), (5.0, 5.0)])).svg()
    assert 'points="66.0,236.0 466.0,26.0 266.0,131.0"' in text


def test_faults_and_the_warm_up_are_marked() -> None:
    marks = (Mark(0, 2, "warm-up", is_fault=False), Mark(5, 6, "kill append"), Mark(7, 7, "stop"))
    text = plot(Line("one", [(0.0, 1.0)]), marks=marks).svg()
    assert re.findall(r'class="(warm|fault)" x="([\d.]+)" y="26" width="([\d.]+)"', text) == [
        ("warm", "66.0", "80.0"),
        ("fault", "266.0", "40.0"),
        ("fault", "346.0", "0.5"),
    ]
    assert "<title>kill append</title>" in text


def test_texts_are_no_markup() -> None:
    bad = "<script>alert('1')</script>\"&\x1b[31m\u202e\ud800"
    text = plot(Line(bad, [(0.0, 1.0)]), marks=(Mark(1, 2, bad),), title=bad).standalone()
    assert "<script" not in text
    assert "\x1b" not in text
    assert ET.fromstring(text).attrib["aria-label"].startswith("<script>")
    text.encode()


def test_a_legend_has_rows_and_an_end() -> None:
    lines = [Line(f"a long name of line {n}", [(0.0, 1.0)]) for n in range(MOST_LINES + 3)]
    root = ET.fromstring(plot(*lines).standalone())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "and 3 more" in texts
    height = float(root.attrib["viewBox"].split()[3])
    assert all(
        float(one.attrib["y"]) < height for one in root.iter("{http://www.w3.org/2000/svg}text")
    )


def test_thinning_keeps_peaks() -> None:
    points: list[tuple[float, float | None]] = [(float(n), 1.0) for n in range(1000)]
    points[500] = (500.0, 99.0)
    points[700] = (700.0, -5.0)
    points[100] = (100.0, None)
    found = thinned(points, 100)
    assert len(found) <= 100
    assert {(500.0, 99.0), (700.0, -5.0)} <= {*found}
    assert found == sorted(found, key=lambda one: one[0])
    assert thinned(points, 1000) == points
