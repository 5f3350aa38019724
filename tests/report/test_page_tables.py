"""Tables and claims of the page in a real browser: numbers of the records, and the way to them."""

from collections.abc import Callable

from browser import ESCAPE, as_printed
from free_steps import made_study
from page_content import made_content

from deadhead.report.page.content import content
from deadhead.studies import read

Drawn = Callable[..., str]


def test_numbers_of_the_page_are_those_of_the_records(page, drawn, tmp_path):
    study = made_study(tmp_path / "study")
    facts = content(study)
    page.open(drawn(facts))
    records = {trial: read(study, trial) for trial in facts["records"]}
    seen = page.run(
        "return [...document.querySelectorAll('#tables tbody tr')].map((row) => "
        "[...row.querySelectorAll('td')].map((td) => td.textContent))"
    )
    for row, cells in enumerate(seen):
        for column, text in enumerate(cells):
            mean = _mean(facts, records, row, column)
            assert as_printed(mean) in text, (row, column)
    trial = next(
        name for name, record in records.items() if record.removed and record.state == "done"
    )
    page.open(drawn(facts) + f"#trial={trial}")
    scores = page.run(
        "return [...document.querySelectorAll('#sheet .grid tbody tr')].map((row) => "
        "[...row.cells].map((c) => c.textContent))"
    )
    heads = page.texts("#sheet .grid thead th")[1:]
    for language, *values in scores:
        for name, value in zip(heads, values, strict=True):
            assert (
                float(value)
                == records[trial].metrics[
                    f"{language}/{name.replace('micro F1', 'micro_f1').replace(' ', '/')}"
                ]
            )
    removed = page.run(
        "return [...document.querySelectorAll('#sheet td.gone')].map((td) => td.dataset.head)"
    )
    assert sorted(removed) == sorted(records[trial].removed)
    assert page.complaints() == []


def _mean(facts, records, row, column):
    """The mean over the trials of a cell, from the records, in points (F1 for tagging)."""
    table = facts["tables"][0]
    language = table["columns"][column][0]
    values = [
        records[trial].metrics.get(f"{language}/test/micro_f1")
        for trial in table["cells"][row][column]["trials"]
    ]
    kept = [100 * value for value in values if value is not None]
    return round(sum(kept) / len(kept), 4) if kept else None


def test_a_table_is_sorted_and_filtered(page, drawn):
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


def test_cells_are_marked_not_by_colour_alone(page, drawn):
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


def test_every_verdict_has_its_own_word_and_colour(page, drawn):
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


def test_of_very_many_trials_the_page_lists_the_first_and_says_so(page, drawn):
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


def test_a_number_leads_to_its_trials_and_a_claim_to_its_records(page, drawn):
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
