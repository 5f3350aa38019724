"""For the site: a link to a file outside docs/ leads somewhere on a code host and nowhere here, so only its words are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.resolve()
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    home = (HERE / page.file.src_uri).parent

    def plain(link: re.Match[str]) -> str:
        target = (home / link[2]).resolve()
        return (
            link[1]
            if "://" not in link[2] and target.exists() and HERE not in target.parents
            else link[0]
        )

    return LINK.sub(plain, markdown)
