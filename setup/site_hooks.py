"""What MkDocs calls while it builds the documentation: see mkdocs.yml.

A page of the site comes from one of four places:

- a file of docs/;
- a document in the repository's root, such as ARCHITECTURE.md;
- a source file that one of these links to: the page shows its docstring and its text;
- the public names of the package: each page lists those of one purpose, from their docstrings.

Documents link to files of the repository, so that they can be read there. Here each such link
becomes one to the page of that file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from site_links import ROOT_PAGES, linked_files, rewrite, site_path
from site_pages import API, api_page, source_page

ROOT: Final = Path(__file__).resolve().parents[1]
#: Scripts that the Makefile fetches. The site works without them: it then shows the text of
#: diagrams, and has no search.
SCRIPTS: Final = ROOT / "build" / "docs"
MERMAID: Final = "mermaid.min.js"
SEARCH: Final = "iframe-worker.js"
#: The section of pages that mkdocs.yml does not name.
_OTHERS: Final = "Operating it"

#: For each page that is made here, the file of the repository whose links it has.
_origins: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Completes the navigation."""
    _section(config.nav, "Reference", "API")[:] = [{API[name][0]: name} for name in API]
    named = set(_names(config.nav))
    others = sorted(
        str(path.relative_to(ROOT / "docs"))
        for path in (ROOT / "docs").rglob("*.md")
        if "examples" not in path.parts
    )
    _section(config.nav, _OTHERS).extend(name for name in others if name not in named)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are no files of docs/."""
    documents = {f"docs/{file.src_uri}" for file in files.documentation_pages()}
    found = linked_files(ROOT, [*documents, *ROOT_PAGES])
    for path in sorted({*found, *ROOT_PAGES} - documents):
        if not path.startswith("docs/"):
            _add(files, config, site_path(path), source_page(ROOT, path))
            _origins[site_path(path)] = path
    for name in API:
        _add(files, config, name, api_page(ROOT, name))
    config.extra_javascript += _script(files, config, MERMAID)
    # The theme would load the second one from another host.
    config.extra["polyfills"] = _script(files, config, SEARCH)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lets the links of a page lead to pages."""
    name = page.file.src_uri
    if name in API:
        return markdown
    return rewrite(ROOT, markdown, _origins.get(name, f"docs/{name}"), name)


def _script(files: Any, config: Any, name: str) -> list[str]:
    """Adds a script to the site, if it was fetched. Returns its path."""
    if not (SCRIPTS / name).is_file():
        return []
    path = f"javascripts/{name}"
    files.append(File.generated(config, path, abs_src_path=str(SCRIPTS / name)))
    return [path]


def _add(files: Any, config: Any, name: str, content: str) -> None:
    files.append(File.generated(config, name, content=content))


def _section(nav: list[Any], *titles: str) -> list[Any]:
    """The list of a section, to be changed."""
    for title in titles:
        for entry in nav:
            if isinstance(entry, dict) and title in entry:
                nav = entry[title]
                break
        else:
            raise PluginError(f"mkdocs.yml: the navigation has no section {title!r}")
    return nav


def _names(nav: list[Any]) -> list[str]:
    """The pages of a navigation."""
    found: list[str] = []
    for entry in nav:
        if isinstance(entry, str):
            found.append(entry)
        else:
            for part in entry.values():
                found.extend(_names(part) if isinstance(part, list) else [part])
    return found
