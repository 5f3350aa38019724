"""Effects as a table and as heat maps."""

import pytest

from deadhead.effects import Effects
from deadhead.layout import HeadLayout

LAYOUT = HeadLayout.grid(encoder=(2, 2))
HEADS = list(LAYOUT)


def effects(positions=(None,)):
    places = [(head, position) for head in HEADS for position in positions]
    values = {place: 1.0 + number / 4 for number, place in enumerate(places)}
    return Effects(values=values, clean=3.0, corrupt=1.0, into="corrupt", examples=5, layout=LAYOUT)


def test_the_frame_is_tidy():
    frame = effects().frame()
    assert list(frame.columns) == [
        "head", "block", "layer", "index", "position", "metric", "effect", "normalised",
    ]  # fmt: skip
    last = frame.iloc[-1]
    assert (last["head"], last["layer"], last["index"]) == ("encoder.1.1", 1, 1)
    assert (last["metric"], last["effect"], last["normalised"]) == (1.75, 0.75, 0.375)
    assert len(effects((0, 3, -1)).frame()) == 12


def test_a_head_is_shown_by_its_strongest_position():
    both = effects((0, 3))
    assert both.by_head() == {head: 0.25 + n / 2 for n, head in enumerate(HEADS)}
    noise = Effects(
        values={(HEADS[0], 0): 2.5, (HEADS[0], 1): 1.0},
        clean=3.0, corrupt=1.0, into="clean", examples=1, layout=LAYOUT,
    )  # fmt: skip
    assert noise.by_head() == {HEADS[0]: -2.0}
    assert noise.effect[HEADS[0], 0] == -0.5


@pytest.mark.parametrize("positions", [(None,), (0, 3)])
def test_heat_maps(positions):
    from rich.console import Console

    result = effects(positions)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(result)
    assert "from clean into corrupt (clean 3, corrupt 1)" in capture.get()
    assert ("strongest position" in capture.get()) == (positions != (None,))
    assert " 99 " in capture.get()
    html = result._repr_html_()
    assert html.count("encoder.") == len(HEADS)
    assert "encoder.1.1: " in html
    chart = result.plot().to_dict()
    assert "corrupt" in chart["title"]
    text = str(chart)
    assert text.count("'effect'" if positions[0] == 0 else "'score'") >= len(HEADS) * len(positions)
    assert str(HEADS[-1]) in text
