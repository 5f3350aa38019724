"""The page in a real browser: drawn without complaint, the numbers of the records, and all of it by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from free_steps import made_study
from page_content import ARABIC, HEADS, HOSTILE, made_content

from deadhead.report.page.content import content
from deadhead.studies import read

Drawn = Callable[..., str]
UP, DOWN, LEFT, RIGHT, END, ENTER, TAB, ESCAPE = (
    "\ue013",
    "\ue015",
    "\ue012",
    "\ue014",
    "\ue010",
    "\ue007",
    "\ue004",
    "\ue00c",
)


def as_printed(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def test_everything_is_drawn_without_complaint(page: Page, drawn: Drawn):
    page.open(drawn())
    page.until("return document.querySelector('.plot').dataset.ready")
    assert page.run("return document.querySelector('.plot').dataset.ready") == "yes"
    assert page.run("return document.querySelectorAll('.plot svg path').length") > 5
    sizes = "return [...document.querySelectorAll('.plot svg text')].map((t) => [getComputedStyle(t).fontSize, t.getAttribute('font-size')])"
    assert all(
        one == spec for one, spec in page.run(sizes)
    )  # the style of the page leaves figures as they were specified
    assert page.texts("#sections a") == [
        "Summary",
        "Tables",
        "Figures",
        "Heads",
        "Claims",
        "Trials",
    ]
    data = made_content()
    assert page.texts(".findings li") == data["findings"]
    assert page.run("return document.querySelectorAll('figure[data-map]').length") == len(
        data["maps"]
    )
    assert page.complaints() == []


def test_the_complaints_of_a_page_are_heard(page: Page, drawn: Drawn):
    page.open(drawn())
    page.run(
        "const s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s)"
    )
    assert any("Content Security Policy" in one for one in page.complaints())
    assert page.driver.title != "1"


def test_numbers_of_the_page_are_those_of_the_records(page: Page, drawn: Drawn, tmp_path: Path):
    study = made_study(tmp_path / "study")
    facts = content(study)
    page.open(drawn(facts))
    records = {one: read(study, one) for one in facts["records"]}
    seen = page.run(
        "return [...document.querySelectorAll('#tables tbody tr')].map((row) => [...row.querySelectorAll('td')].map((td) => td.textContent))"
    )
    for row, cells in enumerate(seen):
        for column, text in enumerate(cells):
            mean = _mean(facts, records, row, column)
            assert as_printed(mean) in text, (row, column)
    one = next(
        name for name, record in records.items() if record.removed and record.state == "done"
    )
    page.open(drawn(facts) + f"#trial={one}")
    scores = page.run(
        "return [...document.querySelectorAll('#sheet .grid tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"
    )
    heads = page.texts("#sheet .grid thead th")[1:]
    for language, *values in scores:
        for name, value in zip(heads, values, strict=True):
            assert (
                float(value)
                == records[one].metrics[
                    f"{language}/{name.replace('micro F1', 'micro_f1').replace(' ', '/')}"
                ]
            )
    removed = page.run(
        "return [...document.querySelectorAll('#sheet td.gone')].map((td) => td.dataset.head)"
    )
    assert sorted(removed) == sorted(records[one].removed)
    assert page.complaints() == []


def _mean(facts: dict[str, Any], records: dict[str, Any], row: int, column: int) -> float | None:
    """The mean over the trials of a cell, out of the records themselves, in points (the score of tagging is F1)."""
    table = facts["tables"][0]
    language = table["columns"][column][0]
    values = [
        records[one].metrics.get(f"{language}/test/micro_f1")
        for one in table["cells"][row][column]["trials"]
    ]
    kept = [100 * value for value in values if value is not None]
    return round(sum(kept) / len(kept), 4) if kept else None


def test_a_table_is_sorted_and_filtered(page: Page, drawn: Drawn):
    page.open(drawn())
    table = made_content()["tables"][0]
    page.click("[data-sort='0']")
    order = sorted(range(len(table["rows"])), key=lambda r: -table["cells"][r][0]["ours"])
    assert page.texts("#tables tbody th") == [table["rows"][r][0] for r in order]
    page.click("[data-sort='2']")  # a cell that failed goes last, up or down
    assert page.texts("#tables tbody th")[-1] == "lowest 25"
    page.click("[data-sort='2']")
    assert page.texts("#tables tbody th")[-1] == "lowest 25"
    assert (
        page.find("[data-sort='2']").find_element("xpath", "..").get_attribute("aria-sort")
        == "ascending"
    )
    page.find("#tables input[type=search]").send_keys("random")
    assert set(page.texts("#tables tbody th")) == {"random 25", "random 50"}
    assert "2 of 5 rows" in page.find("#tables .status").text


def test_a_number_that_rounds_to_zero_has_no_sign(page: Page, drawn: Drawn):
    content = made_content()
    cell = content["tables"][0]["cells"][0][0]
    cell |= {"ours": -0.004, "change": -0.001, "published": None}
    page.open(drawn(content))
    text = page.find("#tables tbody td").text
    assert "0.0" in text
    assert "\u22120.0" not in text


def test_cells_are_marked_not_by_colour_alone(page: Page, drawn: Drawn):
    page.open(drawn())
    table = made_content()["tables"][0]
    signs = {"better": "▲", "worse": "▼"}
    for row, cells in enumerate(table["cells"]):
        for column, cell in enumerate(cells):
            node = page.find(f"[data-focus='table-1-scores/{row}/{column}']")
            for mark, sign in signs.items():
                assert (sign in node.text) == (cell["mark"] == mark)
            words = {"failed": "✕ failed", "missing": "· not run", "partial": "◐"}.get(
                cell["state"], ""
            )
            assert words in node.text
            if cell["ours"] is not None and cell["published"] is not None:
                assert (
                    f"{cell['published']:.2f}" in node.text
                )  # as it was printed, which is not how ours are
                assert as_printed(cell["ours"] - cell["published"]).lstrip("−") in node.text


def test_claims_are_named_as_the_command_line_names_them(page: Page, drawn: Drawn):
    page.open(drawn())
    assert page.texts("#claims li .statement .mono") == [f"claim-{n}" for n in range(5)]
    page.open(drawn(made_content("one"), made_content("two")))
    assert page.texts("#compare th .mono") == [f"claim-{n}" for n in range(5)]


def test_every_verdict_has_its_own_word_and_colour(page: Page, drawn: Drawn):
    page.open(drawn())
    chips = "[...document.querySelectorAll('#claims li > div:first-child .chip')]"
    page.run("document.querySelector('#claims details').open = true")
    words = [claim["verdict"] for claim in made_content()["claims"]]
    assert [
        text[1:].strip() for text in page.run(f"return {chips}.map((chip) => chip.textContent)")
    ] == words
    colours = page.run(f"return {chips}.map((chip) => getComputedStyle(chip).color)")
    assert len(set(colours)) == len(words) == 5
    lead = page.find("#claims .lead").text
    assert "1 is compatible, but not shown" in lead
    assert "1 on other models or tasks is not tested here" in lead


def test_of_very_many_trials_the_page_names_the_first_and_tells_so(page: Page, drawn: Drawn):
    data = made_content()
    data["claims"][0]["records"] = 19_992
    data["tables"][0]["cells"][2][1]["n"] = 221
    page.open(drawn(data))
    assert page.find("#claims li a").text == "19,992 records"
    for opener, text in (
        ("#claims li a", "19,992 trials"),
        ("[data-focus='table-1-scores/2/1']", "221 numbers"),
    ):
        page.run(f'document.querySelector("{opener}").click()')
        page.until("return document.getElementById('sheet').open")
        named = len(page.texts("#sheet .list .mono"))
        assert f"The first {named} of {text}." in page.find("#sheet .lead").text
        page.press(ESCAPE)
        page.until("return !document.getElementById('sheet').open")


def test_a_number_leads_to_its_trials_and_a_claim_to_its_records(page: Page, drawn: Drawn):
    page.open(drawn())
    data = made_content()
    page.run("document.querySelector(\"[data-focus='table-1-scores/2/1']\").click()")
    page.until("return document.getElementById('sheet').open")
    assert page.texts("#sheet .list .mono") == data["tables"][0]["cells"][2][1]["trials"]
    page.press(ESCAPE)
    page.until("return !document.getElementById('sheet').open && location.hash === ''")
    page.run("document.querySelector('#claims a').click()")
    page.until("return document.getElementById('sheet').open")
    assert page.texts("#sheet .list .mono") == data["claims"][0]["trials"]
    page.click("#sheet .list a")
    page.until("return location.hash.startsWith('#trial=')")
    assert data["claims"][0]["trials"][0] in page.find("#sheet").text
    page.driver.back()
    page.until("return location.hash === '#claim=claim-0'")
    assert page.complaints() == []


def test_a_cell_lists_its_own_numbers_with_their_seeds(page: Page, drawn: Drawn):
    page.open(drawn())
    data = made_content()
    cell = data["tables"][0]["cells"][2][1]
    page.run("document.querySelector(\"[data-focus='table-1-scores/2/1']\").click()")
    page.until("return document.getElementById('sheet').open")
    listed = list(
        zip(page.texts("#sheet .numbers .value"), page.texts("#sheet .numbers .what"), strict=True)
    )
    assert listed == [
        (f"{value:.2f}", f"seed {seed}") for seed, (value, *_) in enumerate(cell["numbers"])
    ]
    assert sum(float(value) for value, _ in listed) / len(listed) == pytest.approx(
        cell["ours"], abs=0.01
    )
    assert f"{cell['ours']:.2f}: the mean of 3 numbers" in page.find("#sheet .lead").text
    assert not {str(row[-1]) for row in data["trials"]["rows"]} & {
        value for value, _ in listed
    }  # means over languages


def test_a_head_pointed_at_is_outlined_in_every_map(page: Page, drawn: Drawn):
    page.open(drawn())
    head, maps = "encoder.2.5", made_content()["maps"]
    page.point_at(f"[data-map=map-1] [data-head='{head}']")
    page.until("return !document.getElementById('tip').hidden")
    same = page.run("return [...document.querySelectorAll('td.same')].map((td) => td.dataset.head)")
    assert same == [head] * len(maps)
    tip = page.find("#tip").text
    assert "encoder layer 2 head 5" in tip
    assert str(float(f"{maps[1]['scores'][head]:.4f}")) in tip
    better = sum(value > maps[1]["scores"][head] for value in maps[1]["scores"].values())
    assert f"{better + 1} of {len(HEADS)}" in tip
    page.point_at("h1")
    page.until("return document.getElementById('tip').hidden")
    assert page.run("return document.querySelectorAll('td.same').length") == 0


def test_a_head_in_a_figure_is_outlined_in_the_maps_too(page: Page, drawn: Drawn):
    page.open(drawn())
    page.point_at(".plot .mark-symbol path")
    page.until("return document.querySelectorAll('td.same').length")
    assert (
        page.run(
            "return new Set([...document.querySelectorAll('td.same')].map((td) => td.dataset.head)).size"
        )
        == 1
    )
    page.point_at("h1")
    page.until("return document.querySelectorAll('td.same').length === 0")


def test_the_tooltip_of_a_head_is_above_the_sheet(page: Page, drawn: Drawn):
    trial = made_content()["trials"]["rows"][6][0]
    page.open(drawn() + f"#trial={trial}")
    page.point_at("#sheet td.gone")
    page.until("return !document.getElementById('tip').hidden")
    assert page.run(
        "return document.getElementById('tip').matches(':popover-open')"
    )  # in the top layer, opened after the sheet
    page.run("document.querySelector('#sheet td.gone').click()")
    assert page.run("return [document.getElementById('sheet').open, location.hash]") == [
        True,
        f"#trial={trial}",
    ]


def test_a_head_is_explored_by_keyboard(page: Page, drawn: Drawn):
    page.open(drawn())
    page.run("document.querySelector(\"[data-map=map-0] [data-head='encoder.0.0']\").focus()")
    page.press(UP, RIGHT, RIGHT)
    assert page.run("return document.activeElement.dataset.head") == "encoder.1.2"
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert (
        page.run("return document.querySelectorAll('[data-map=map-0] [tabindex=\"0\"]').length")
        == 1
    )
    page.press(ENTER)
    assert page.find("#explorer h3").text == "encoder layer 1 head 2"
    assert page.run("return location.hash") == "#head=encoder.1.2"
    facts = made_content()["heads"]["encoder.1.2"]
    text = page.find("#explorer").text
    assert all(name in text for name in facts["rankings"])
    assert str(float(f"{facts['rankings']['lrp, en']:.4f}")) in text
    for language, value in facts["effect"].items():
        assert f"{language}\n{'+' if value > 0 else ''}{as_printed(value, 2)}" in text
    page.run("document.querySelector('[data-focus=\"explorer/1\"]').click()")
    assert page.find("#explorer h3").text == "encoder layer 1 head 3"


def test_tab_comes_by_everything(page: Page, drawn: Drawn):
    page.open(drawn())
    page.run("document.body.focus()")
    stops: list[str] = []
    for _ in range(90):
        page.press(TAB)
        where = page.run(
            "const a = document.activeElement; return [a.tagName, a.closest('section, header')?.id || a.closest('header')?.className || '']"
        )
        stops.append(where[1])
    assert {"bar", "top", "tables", "heads", "claims", "trials"} <= set(stops)
    assert (
        page.run("return [...document.querySelectorAll('main, nav, header, footer')].length") >= 4
    )


def test_trials_are_filtered_sorted_and_opened(page: Page, drawn: Drawn):
    page.open(drawn())
    rows = made_content()["trials"]["rows"]
    page.find("#trial-filter").send_keys("random")
    assert page.texts("#trial-rows tr[data-at] td:first-child") == [
        row[0] for row in rows if "random" in row[2]
    ]
    page.find("#trial-filter").send_keys(" seed:1")
    assert page.texts("#trial-rows tr[data-at] td:first-child") == [
        row[0] for row in rows if "random" in row[2] and row[3] == 1
    ]
    page.find("#trial-filter").send_keys(
        "\ue009a", "\ue009", "\ue003"
    )  # all of it chosen, then taken away
    page.run("document.querySelectorAll('#trial-rows button.sort')[4].click()")
    scores = [row[4] for row in rows if row[4] is not None]
    assert page.texts("#trial-rows tr[data-at] td:last-child")[: len(scores)] == [
        as_printed(s, 2) for s in sorted(scores, reverse=True)
    ]
    page.run("document.querySelector('#trial-rows tr[data-at]').focus()")
    page.press(DOWN, ENTER)
    best = sorted((row for row in rows if row[4]), key=lambda row: -row[4])[1]
    page.until("return document.getElementById('sheet').open")
    assert page.run("return location.hash") == f"#trial={best[0]}"


def test_twenty_thousand_trials_are_walked_through(page: Page, drawn: Drawn):
    rows = [
        [f"{n:06d}", "done", f"random {n % 97}", n % 5, round(n / 7 % 100, 2)]
        for n in range(20_000)
    ]
    page.open(
        drawn(
            made_content()
            | {"trials": {"fields": made_content()["trials"]["fields"], "rows": rows}}
        )
    )
    assert "20,000 trials" in page.find("#trials .status").text
    assert page.run("return document.querySelectorAll('#trial-rows tr').length") < 120
    page.run("document.querySelector('#trial-rows tr[data-at]').focus()")
    page.press(END)
    assert page.run("return document.activeElement.dataset.id") == "019999"
    page.press(UP)
    assert page.run("return document.activeElement.dataset.id") == "019998"
    page.find("#trial-filter").send_keys('remove:"random 96"')
    expected = sum(n % 97 == 96 for n in range(20_000))
    assert f"{expected} of 20,000 trials" in page.find("#trials .status").text
    assert page.find("#trial-rows tr[data-at]").text.startswith(
        "000096"
    )  # though the reader was at the end before
    assert page.find("#trial-rows tr[data-at]").is_displayed()


def test_a_trial_is_shown_with_its_errors_right_to_left(page: Page, drawn: Drawn):
    trial = made_content()["trials"]["rows"][6][0]
    page.open(drawn() + f"#trial={trial}")
    record = made_content()["records"][trial]
    sheet = page.find("#sheet").text
    for name, value in record["metrics"].items():
        assert str(value) in sheet, name
    lines = page.driver.find_elements("css selector", "#sheet .tokens")
    assert [line.get_attribute("dir") for line in lines] == ["ltr", "rtl"]
    lefts = [word.rect["x"] for word in lines[1].find_elements("css selector", "li")]
    assert lefts == sorted(lefts, reverse=True)  # the first word stands furthest to the right
    assert len(lefts) == len(ARABIC)
    assert [
        word.text.replace("\n", " ") for word in lines[1].find_elements("css selector", "li.wrong")
    ] == ["ماريا NOUN PROPN"]
    assert page.run("return document.querySelectorAll('#sheet svg.curve polyline').length") == 2
    failed = made_content()["trials"]["rows"][4][0]
    page.open(drawn() + f"#trial={failed}")
    assert "out of memory" in page.find("#sheet pre").text
    page.open(drawn() + "#trial=nothing")
    assert "no trial with that name" in page.find("#sheet").text
    assert page.complaints() == []


def test_an_address_leads_to_a_head(page: Page, drawn: Drawn):
    page.open(drawn() + "#head=encoder.3.7")
    assert page.find("#explorer h3").text == "encoder layer 3 head 7"
    assert page.run("return document.querySelectorAll('td.chosen').length") == len(
        made_content()["maps"]
    )
    page.until(
        "return document.getElementById('heads').getBoundingClientRect().top < innerHeight / 2"
    )
    page.open(drawn() + "#head=%3Cb%3E")
    assert page.find("#explorer h3").text == "Head explorer"
    assert page.complaints() == []


def test_dark_follows_the_system_and_the_reader(page: Page, drawn: Drawn):
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "light"}]},
    )
    page.open(drawn())
    light = page.run(ground)
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    page.until("return document.documentElement.dataset.theme === 'dark'")
    assert page.run(ground) != light
    page.click("#theme")
    assert page.run(ground) == light
    page.open(drawn())
    assert page.run(ground) == light  # the reader's choice outlasts the system's
    page.run("localStorage.clear()")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert page.complaints() == []


def test_hostile_text_is_shown_as_text(page: Page, drawn: Drawn):
    data = made_content(hostile=HOSTILE)
    page.open(drawn(data))
    page.until("return document.querySelector('.plot').dataset.ready === 'yes'")
    assert page.find("h1").text == data["name"]
    assert data["tables"][0]["title"] in page.texts("#tables h3")
    assert HOSTILE in page.find("#claims").text
    for trial in data["records"]:
        page.run("location.hash = arguments[0]", f"trial={trial}")
        page.until(
            "return document.getElementById('sheet').textContent.includes(arguments[0])", trial
        )
    assert HOSTILE in page.find("#sheet").text
    page.run("document.getElementById('sheet').close()")
    page.point_at("[data-map=map-1] [data-head='encoder.2.5']")
    page.until("return document.getElementById('tip').textContent.includes('<img')")
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.driver.title == f"{data['name']} · deadhead"
    assert page.complaints() == []


def test_studies_are_compared(page: Page, drawn: Drawn):
    one, two = made_content("first"), made_content("second")
    two["tables"][0]["cells"][0][0]["ours"] = one["tables"][0]["cells"][0][0]["ours"] + 3
    page.open(drawn(one, two))
    row = page.texts("#compare article:nth-of-type(2) tbody tr:first-child td")
    ours = one["tables"][0]["cells"][0][0]["ours"]
    assert row[0].startswith(as_printed(ours))
    assert row[1].startswith(as_printed(ours + 3))
    assert row[1].endswith("+3.0")
    assert page.find("h1").text == "first"
    page.click(".tabs button:nth-child(2)")
    assert page.find("h1").text == "second"
    assert page.complaints() == []


def test_paper_shows_what_matters(page: Page, drawn: Drawn):
    page.open(drawn())
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = page.run(
        "return ['.bar', '.controls'].map((s) => getComputedStyle(document.querySelector(s)).display)"
    )
    assert hidden == ["none", "none"]
    assert (
        page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
