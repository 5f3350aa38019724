"""Figures as SVG in a real browser, whose font is wider than the one that measured their text."""

from deadhead.report.export import PRINT, _drawers
from deadhead.report.figures.charts import curves

WIDE = "DejaVu Sans, Verdana, sans-serif"
LINES = ("chosen by the gradient, then refitted", "random heads, only cut and never refitted")
PLACES = ("the top three layers", "the bottom three layers")
OUTSIDE = """
const picture = document.querySelector("svg").getBoundingClientRect();
return [...document.querySelectorAll("svg text")].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.left < picture.left || box.right > picture.right
    || box.top < picture.top || box.bottom > picture.bottom;
}).map((text) => text.textContent)
"""


def test_no_label_is_clipped_in_a_wide_font(page, tmp_path):
    values = [
        {"x": x, "y": y, "line": line, "panel": ""} for line in LINES for y, x in enumerate(PLACES)
    ]
    chart = curves(values, "Points", x="removed", y="points", order=PLACES)
    picture = _drawers()["svg"]({**chart, "config": PRINT})
    assert all(label in picture for label in (*LINES, *PLACES))  # whole, within their limits
    assert 'font-family="sans-serif"' in picture
    file = tmp_path / "figure.html"
    file.write_text(picture.replace('"sans-serif"', f'"{WIDE}"'), encoding="utf-8")
    page.driver.get(file.as_uri())
    assert page.run(OUTSIDE) == []
