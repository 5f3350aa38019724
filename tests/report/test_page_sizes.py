"""The page on screens of every size: charts fit, navigation is not cut."""

from collections.abc import Callable

import pytest
from page_content import made_content

from deadhead.report.figures.charts import curves

Drawn = Callable[..., str]


SIZES = {"small phone": (360, 640), "tablet": (820, 1180), "desk": (1280, 800)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("panels", [1, 9])
def test_charts_and_navigation_fit_every_screen(page, drawn, size, panels):
    data = made_content()
    lines = [f"l{n}" for n in range(panels)]
    values = [
        {"x": x, "y": 70 + x, "low": 69 + x, "high": 72 + x, "line": line, "panel": "", "n": 3}
        for line in lines
        for x in range(5)
    ]
    options = {"x": "heads", "y": "micro F1, points", "line": "language"}
    data["figures"] = [
        {
            **figure,
            "kind": "curve",
            "spec": curves(values, "Curves", lines=lines, panels=[""], **options),
        }
        for figure in data["figures"]
    ]
    width, height = SIZES[size]
    shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        page.open(drawn(data))
        assert page.run("return document.documentElement.scrollWidth") <= width
        over = (
            "[...document.querySelectorAll('.plot')].filter((plot) => "
            "plot.querySelector('svg').clientWidth > plot.clientWidth + 1).length"
        )
        assert page.run(f"return {over}") == 0
        assert (
            page.run("return [...document.querySelectorAll('.plot.fit')].length") == 0
        )  # drawn for the width, not shrunk with its text
        boxes = page.run(
            "return [...document.querySelectorAll('#sections a')].map((a) => { const b = "
            "a.getBoundingClientRect(); return [b.left, b.right] })"
        )
        assert len(boxes) == 6
        assert all(left >= 0 and right <= width for left, right in boxes)
        if panels > 1:  # two in a row on a phone, three on a desk
            names = (
                "[...document.querySelectorAll('#top .plot text')].filter((text) => "
                "/^l[0-9]$/.test(text.textContent))"
            )
            rows = page.run(
                f"return new Set({names}.map((text) => "
                "Math.round(text.getBoundingClientRect().top / 20))).size"
            )
            assert rows == {"small phone": 5, "tablet": 3, "desk": 3}[size]
        picture = page.run(
            "return document.querySelector('#top figure').getBoundingClientRect().top"
        )
        assert (
            page.run("return document.querySelector('h1').getBoundingClientRect().bottom") <= height
        )
        assert picture < height * 0.6  # title and picture are on the first screen
        assert page.complaints() == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
