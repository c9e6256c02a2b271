"""The generated pages of docs/ are what their sources say now: `make fix` writes them."""

from __future__ import annotations

import pytest
from reference_pages import FILES, MEMORY, PAGES
from site_pages import API, api_page
from tidy.sources import ROOT
from tidy.test_layouts import OWNERS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_current(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page]()


def test_every_layout_is_on_the_page_of_formats() -> None:
    owners = {str(path) for path in OWNERS if "offset  size" in (ROOT / path).read_text()}
    assert owners <= {*FILES.values(), *MEMORY.values()}


def test_every_public_name_has_a_page() -> None:
    assert all(api_page(ROOT, page) for page in API)
