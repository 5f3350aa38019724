"""The heat map of a notebook: every head once, its score as a tooltip, text that can be read."""

import xml.etree.ElementTree as ElementTree

import pytest

from deadhead.layout import Attention, Head, HeadLayout
from deadhead.ranking import Ranking
from deadhead.ranking.heatmap import html

UNEVEN = HeadLayout(
    [
        Attention(block="encoder", layer=0, size=3, kept=(0, 2), width=8),
        Attention(block="encoder", layer=1, size=2, kept=(0, 1), width=8),
        Attention(block="cross", layer=0, size=2, kept=(0, 1), width=8),
    ],
    skipped={"pooler.<attention>": "no output projection"},
)


def cells(page):
    """Tooltip up to the colon -> the rest of it and the text of the square."""
    root = ElementTree.fromstring(page)
    squares = [cell for cell in root.iter("td") if "title" in cell.attrib]
    named = [(*cell.attrib["title"].split(": "), cell.text) for cell in squares]
    assert len({name for name, *_ in named}) == len(named)
    return {name: (state, text) for name, state, text in named}


def test_a_ranking_shows_each_head_with_its_score():
    scores = {head: float(value) for value, head in enumerate(UNEVEN)}
    page = Ranking(scores=scores, layout=UNEVEN, method="gradient")._repr_html_()
    assert cells(page) == {
        "encoder.0.0": ("0", "00"),
        "encoder.0.1": ("no score", "·"),
        "encoder.0.2": ("1", "20"),
        "encoder.1.0": ("2", "40"),
        "encoder.1.1": ("3", "59"),
        "cross.0.0": ("4", "79"),
        "cross.0.1": ("5", "99"),
    }
    root = ElementTree.fromstring(page)
    assert len(list(root.iter("table"))) == 2
    assert "gradient: 6 heads, 0 (00) to 5 (99)" in page


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_no_number_is_named_and_has_no_colour(value):
    scores = dict.fromkeys(UNEVEN, 1.0) | {Head("cross", 0, 0): value}
    squares = cells(html(scores, UNEVEN, "effects"))
    assert squares["cross.0.0"] == (f"{value:.4g}", "·")
    assert squares["cross.0.1"] == ("1", "00")
    assert "nan (00)" in html({}, UNEVEN, "nothing")


def test_a_layout_shows_kept_removed_and_skipped():
    page = UNEVEN._repr_html_()
    squares = cells(page)
    assert squares["encoder.0.1"] == ("removed", "×")
    assert squares["encoder.0.2"] == ("width 8", "2")
    assert set(squares) == {str(head) for head in (*UNEVEN, *UNEVEN.removed)}
    text = "".join(ElementTree.fromstring(page).itertext())
    assert "6 of 7 heads are there" in text
    assert "skipped pooler.<attention>: no output projection" in text


def test_grouped_heads_name_their_key_value_head():
    attention = Attention(block="decoder", layer=0, size=4, kept=(2, 3), width=8, group=2)
    squares = cells(HeadLayout([attention])._repr_html_())
    assert squares["decoder.0.3"] == ("width 8, key/value head 1", "3")
