"""The titles of the figures of the results fit into them, also in the widest font of a browser."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

FIGURES = sorted((Path(__file__).parents[2] / "docs" / "results" / "images").glob("*.svg"))
# the characters from the space to the tilde in DejaVu Sans Bold, in thousandths of the font's size
WIDTHS = """
    348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696
    696 696 696 696 696 696 696 400 400 838 838 838 580 1000 774 762 734 830 683
    683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812 774 1103 771
    724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665
    343 1042 712 687 716 716 493 595 478 712 652 924 645 652 582 712 365 712 838
"""
NUMBER = r"([-\d.]+)"
TITLE = re.compile(
    rf'role-title"><g transform="translate\({NUMBER},.*?font-size="(\d+)px"[^>]*>([^<]*)</text>'
)


def ends(picture: str) -> list[float]:
    """Where the titles of a figure and of its panels end, if they begin where the figure does."""
    widths = {chr(code): int(number) for code, number in enumerate(WIDTHS.split(), ord(" "))}
    margin = float(re.findall(rf"translate\({NUMBER},", picture)[0])
    return [
        margin + float(left) + int(size) * sum(widths.get(c, 1000) for c in unescape(text)) / 1000
        for left, size, text in TITLE.findall(picture)
    ]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
def test_a_title_fits_into_its_figure(figure):
    picture = figure.read_text(encoding="utf-8")
    width = float(re.findall(rf'width="{NUMBER}"', picture)[0])
    assert ends(picture)
    assert max(ends(picture)) <= width
