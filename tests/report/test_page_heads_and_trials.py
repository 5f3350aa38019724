"""Heads and trials of the page in a real browser, by mouse and by keyboard."""

from collections.abc import Callable

from browser import DOWN, END, ENTER, RIGHT, UP, as_printed
from page_content import ARABIC, HEADS, made_content

Drawn = Callable[..., str]


def test_a_head_pointed_at_is_outlined_in_every_map(page, drawn):
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


def test_a_head_is_explored_by_keyboard(page, drawn):
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


def test_an_address_leads_to_a_head(page, drawn):
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


def test_trials_are_filtered_sorted_and_opened(page, drawn):
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


def test_twenty_thousand_trials_are_walked_through(page, drawn):
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


def test_a_trial_is_shown_with_its_errors_right_to_left(page, drawn):
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
