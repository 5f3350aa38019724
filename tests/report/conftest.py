"""For the tests of the page: one browser for all, and pages opened in it must not complain."""

import json
from pathlib import Path

import pytest
from browser import HOW, Page, missing, start
from page_content import made_content

from deadhead.report.page.html import html


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    if missing():
        pytest.skip(HOW)
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium):
    return Page(chromium)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """Write a page of contents, or of the one made by hand; its address."""
    place, kept = tmp_path_factory.mktemp("pages"), {}

    def write(*contents):
        key = json.dumps(contents, sort_keys=True)
        if key not in kept:
            kept[key] = Path(place / f"{len(kept)}.html")
            kept[key].write_text(html(*(contents or (made_content(),))), encoding="utf-8")
        return kept[key].as_uri()

    return write
