"""The docs stay short enough to be read, and no sentence is a table."""

import re

import pytest
from doc_blocks import FENCE, ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
MOST = 55_000


def crowded(text):
    """Return the sentences outside of code and tables with more than two "±"."""
    prose = re.sub(r"^\|.*$", "", FENCE.sub("", text), flags=re.M)
    return [s for s in re.split(r"(?<=[.:;!?])\s+|\n\s*\n", prose) if s.count("±") > 2]


def test_all_pages_together():
    count = sum(len(re.findall(r"\w+", page.read_text(encoding="utf-8"))) for page in PAGES)
    assert MOST / 2 < count <= MOST  # half of it: the pages were found


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_has_more_than_two_intervals(page):
    assert crowded(page.read_text(encoding="utf-8")) == []


def test_crowded_sentences_are_noticed():
    assert crowded("1 ± 2, 3 ± 4 and 5 ± 6. 7 ± 8") == ["1 ± 2, 3 ± 4 and 5 ± 6."]
    assert crowded("| 1 ± 2 | 3 ± 4 | 5 ± 6 |\n") == []
