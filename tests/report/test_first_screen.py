"""What a page shows first: the table or figure that the paper prints, then the findings."""

import re
from contextlib import contextmanager

import pytest
from paper_pages import page_content

from deadhead.papers.catalogue import recipe_files
from deadhead.report.check import load_recipe

PRINTED = [name for name in recipe_files() if re.search(r"/(table|figure)\d", name)]
PAGES = {
    "contributions/table2": "Table 2: micro F1, unpruned and best of 12",
    "contributions/figure1": "Figure 1: POS",
    "weak-link/table2": "Table 2: BLEU",
    "weak-link/table4": "Table 4: accuracy",
    "weak-link/figure1": "Figure 1: BLEU of the Transformer by percent of heads removed",
    "mbert-prunability/figure2": "Figure 2 a-d: GLUE",
}
SCREENS = {1400: 900, 390: 844}


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_says_which_of_its_displays_the_paper_prints(name):
    kind, number = re.findall(r"(table|figure)(\d)", name)[0]
    displays = load_recipe(name).data[f"{kind}s"]
    assert displays[0]["title"].startswith(f"{kind.capitalize()} {number}")


@pytest.mark.parametrize("name", PAGES)
def test_what_the_paper_prints_opens_the_page(name):
    data = page_content(name)
    (lead,) = (one for one in (*data["tables"], *data["figures"]) if one["id"] == data["lead"])
    assert lead["title"] == PAGES[name]
    kind = "tables" if lead in data["tables"] else "figures"
    assert data["order"] == sorted(("tables", "figures"), key=lambda one: one != kind)


@pytest.mark.parametrize("name", ["contributions/table2", "weak-link/table2"])
def test_no_figure_has_dozens_of_panels(name):
    figures = page_content(name)["figures"]
    panels = [len({row["panel"] for row in one["spec"]["data"]["values"]}) for one in figures]
    assert figures
    assert max(panels) <= 12
    assert [one["extra"] for one in figures] == [name == "contributions/table2"] * len(figures)


def test_a_map_of_three_blocks_names_its_panels_in_two_lines():
    (figure,) = page_content("weak-link/table2")["figures"]
    assert figure["title"] == "Heads removed (the first 4 of 10)"
    facet = figure["spec"]["facet"]
    assert facet["sort"][:2] == [
        "per_layer 888444/444888/888444, encoder",
        "per_layer 888444/444888/888444, decoder",
    ]
    assert facet["header"]["labelExpr"] == "split(datum.label, ', ')"
    assert figure["spec"]["columns"] == 3  # a row for each removal


@contextmanager
def screen(page, width):
    size = {"width": width, "height": SCREENS[width], "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def box(page, selector):
    script = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
    return dict(page.run(script, selector))


@pytest.mark.parametrize("width", SCREENS)
@pytest.mark.parametrize("name", PAGES)
def test_findings_come_right_after_it(page, drawn, name, width):
    with screen(page, width):
        page.open(drawn(page_content(name)))
        card, findings = box(page, ".hero > .card"), box(page, ".findings")
        first = box(page, ".hero > .card :is(table.grid tbody tr, svg)")
        assert min(first["bottom"], first["top"] + 100) < SCREENS[width]  # its first row, or lines
        beside = findings["right"] <= card["left"] and findings["top"] < SCREENS[width]
        assert beside or 0 <= findings["top"] - card["bottom"] < 60
        assert findings["top"] < SCREENS[width] * (2 if width < 500 else 1)
        title = "const title = document.querySelector('h1');"
        assert page.run(f"{title} return title.scrollWidth <= title.clientWidth")
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.complaints() == []


COVERED = """
const boxes = [...document.querySelectorAll('.plot text')].filter((text) => text.textContent.trim())
  .map((text) => [text.textContent, text.getBoundingClientRect()]);
const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) => covers(a, b))
  .map(([other]) => `${one} | ${other}`))
"""


def test_the_numbers_of_a_square_can_be_read_on_a_phone(page, drawn):
    with screen(page, 390):
        page.open(drawn(page_content("contributions/figure1")))
        assert page.run("return document.querySelectorAll('.plot text').length") > 6 * 81
        assert page.run(COVERED) == []
        assert page.run("return document.querySelectorAll('.plot.fit').length") == 0


def test_figures_wait_until_they_are_opened(page, drawn):
    data = page_content("contributions/table2")
    page.open(drawn(data))
    assert page.run("return document.querySelectorAll('.plot').length") == 0
    page.click("details.extra summary")
    page.until("return document.querySelectorAll('.plot[data-ready=yes] svg').length === 4")
    page.click("#theme")  # drawn again, and still open
    page.until("return document.querySelectorAll('.plot[data-ready=yes] svg').length === 4")
    page.run("localStorage.clear()")
    assert page.complaints() == []
