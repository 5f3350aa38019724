"""Links between pages, to files and to headings lead somewhere; commands in a sentence exist."""

import re

import pytest
from doc_blocks import FENCE, ROOT, parse

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """The names of its headings as the site, and code hosts, make them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {
        re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower().replace(" ", "-")
        for title in titles
    }


def dead(page):
    broken = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        if not link.startswith(("http:", "https:")) and not (
            target.exists()
            and (not anchor or (target.suffix == ".md" and anchor in anchors(target)))
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert dead(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_exist(page):
    from typer.main import get_command

    from deadhead.cli import app

    known = get_command(app).commands
    named = re.findall(r"`deadhead ([a-z][a-z-]*)", prose(page))
    assert [name for name in named if name not in known] == []


def test_dead_links_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`\n[a](page.md) [b](#one-two) [c](none.md) [d](#none) [e](http://x) "
        "[f](page.md#nowhere)\n",
        encoding="utf-8",
    )
    assert dead(page) == ["none.md", "#none", "page.md#nowhere"]
    with pytest.raises(AssertionError):
        parse("deadhead none")
