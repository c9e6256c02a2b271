"""The documentation as a site: it builds without a warning, every link in it leads somewhere, and
it loads nothing from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: The tags by which a page loads something, and the attribute that says what.
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
#: Links that load nothing: they say where the page itself would be.
SAY_WHERE = {"canonical", "next", "prev", "edit"}


class Page(HTMLParser):
    """What one page links to, what it loads, and the places that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def has(self, place: str) -> bool:
        """Whether a link may name the place. The empty place is the page."""
        return not place or place in self.places

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found and found.get("rel") not in SAY_WHERE:
            self.loads.append(found[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it. Without MkDocs the tests are skipped; in CI they fail."""
    try:
        import mkdocs  # noqa: F401
    except ImportError:
        why = "MkDocs is not installed: `make docs` installs it"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a host
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif target in pages and not pages[target].has(unquote(parts.fragment)):
                broken.append(f"{path.relative_to(site)}: {link} (no such place)")
    assert not broken, "\n".join(broken)


def test_a_page_loads_files_of_the_site_only(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for name in page.loads:
            parts = urlsplit(name)
            assert not parts.scheme or parts.scheme == "data", f"{path}: {name}"
            assert not parts.netloc, f"{path}: {name}"
            if path.name != "404.html" and not parts.scheme:
                assert (path.parent / unquote(parts.path)).is_file(), f"{path}: {name}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8"))


def test_every_document_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    named = {unquote(link) for link in pages[site / "index.html"].links}
    documents = [path for path in (ROOT / "docs").rglob("*.md") if "examples" not in path.parts]
    assert len(documents) > 20
    for path in documents:
        name = str(path.relative_to(ROOT / "docs").with_suffix(".html"))
        assert name == "index.html" or name in named, name


def test_the_reference_has_the_docstrings(site: Path, pages: dict[Path, Page]) -> None:
    import silomq

    found = {
        place for path, page in pages.items() if path.parent.name == "api" for place in page.places
    }
    for name in silomq.__all__:
        assert f"silomq.{name}" in found
    text = (site / "api" / "producing.html").read_text(encoding="utf-8")
    assert "silomq.Producer.send_batch" in text


def test_a_browser_draws_the_diagrams(site: Path) -> None:
    """Without a network: the address of every host but the disk leads nowhere."""
    browser = shutil.which("chromium") or ""
    if not browser or not (site / "javascripts" / "mermaid.min.js").is_file():
        why = "this needs Chromium (Debian: apt-get install chromium) and Mermaid (`make docs`)"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    shown = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"),
            *("--virtual-time-budget=10000", "--enable-logging=stderr"),
            (site / "architecture.html").as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    diagrams = len(re.findall("^```mermaid", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE))
    # Material puts each diagram into a shadow root, which a dump does not show.
    assert diagrams >= 3
    assert shown.stdout.count('<div class="mermaid"') == diagrams
    assert '<pre class="mermaid"' not in shown.stdout
    assert "ERR_" not in shown.stderr, shown.stderr
