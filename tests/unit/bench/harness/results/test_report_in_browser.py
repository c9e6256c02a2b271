"""A browser draws the plots, and complains of nothing on its console."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.bench_results import result, rich_result, run, sweep_result

from silomq.bench.harness.results.comparison import comparison
from silomq.bench.harness.results.report import report

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--virtual-time-budget=2000", "--enable-logging=stderr", "--dump-dom",
)  # fmt: skip


def browser() -> str:
    """Chromium. Without it the test is skipped; in CI that is a failure."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    why = "no Chromium is installed (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def loaded(data: bytes, folder: Path) -> str:
    """The document as the browser has it after it loaded a page."""
    page = folder / "page.html"
    page.write_bytes(data)
    shown = subprocess.run(
        [browser(), *OPTIONS, f"--user-data-dir={folder / 'profile'}", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "CONSOLE" not in shown.stderr, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_every_plot_has_points(kind: str, tmp_path: Path) -> None:
    if kind == "comparison":
        other = result([run(n, 50_000.0) for n in range(1, 6)])
        document = loaded(comparison([rich_result(), other], ["a", "b"]), tmp_path)
    else:
        document = loaded(report(sweep_result()), tmp_path)
    plots = re.findall(r"<svg.*?</svg>", document, re.DOTALL)
    assert len(plots) == {"report": 5 + 4 * 12, "comparison": 1}[kind]
    for plot in plots:
        lines = re.findall(r'<polyline[^>]* points="([^"]*)"', plot)
        assert lines
        assert all(re.fullmatch(r"[\d.]+,[\d.]+( [\d.]+,[\d.]+)*", line) for line in lines)
        assert max(len(line.split()) for line in lines) > 1


def test_a_script_that_came_in_would_be_seen(tmp_path: Path) -> None:
    bad = report(rich_result()).replace(b"</main>", b"<script>console.log(1)</script></main>")
    with pytest.raises(AssertionError, match="Content Security Policy"):
        loaded(bad, tmp_path)
