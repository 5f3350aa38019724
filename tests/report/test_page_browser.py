"""The whole page in a real browser: drawn without complaint, dark, on paper, with hostile text."""

from collections.abc import Callable

from browser import as_printed
from page_content import HOSTILE, made_content

Drawn = Callable[..., str]


def test_everything_is_drawn_without_complaint(page, drawn):
    page.open(drawn())
    page.until("return document.querySelector('.plot').dataset.ready")
    assert page.run("return document.querySelector('.plot').dataset.ready") == "yes"
    assert page.run("return document.querySelectorAll('.plot svg path').length") > 5
    sizes = (
        "return [...document.querySelectorAll('.plot svg text')].map((t) => "
        "[getComputedStyle(t).fontSize, t.getAttribute('font-size')])"
    )
    # the style of the page leaves figures as they were specified
    assert all(size == spec for size, spec in page.run(sizes))
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


def test_the_complaints_of_a_page_are_heard(page, drawn):
    page.open(drawn())
    page.run(
        "const s = document.createElement('script'); s.textContent = 'document.title = 1'; "
        "document.body.append(s)"
    )
    assert any("Content Security Policy" in complaint for complaint in page.complaints())
    assert page.driver.title != "1"


def test_dark_follows_the_system_and_the_reader(page, drawn):
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


def test_hostile_text_is_shown_as_text(page, drawn):
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


def test_studies_are_compared(page, drawn):
    first, second = made_content("first"), made_content("second")
    second["tables"][0]["cells"][0][0]["ours"] = first["tables"][0]["cells"][0][0]["ours"] + 3
    page.open(drawn(first, second))
    row = page.texts("#compare article:nth-of-type(2) tbody tr:first-child td")
    ours = first["tables"][0]["cells"][0][0]["ours"]
    assert row[0].startswith(as_printed(ours))
    assert row[1].startswith(as_printed(ours + 3))
    assert row[1].endswith("+3.0")
    assert page.find("h1").text == "first"
    page.click(".tabs button:nth-child(2)")
    assert page.find("h1").text == "second"
    assert page.complaints() == []


def test_paper_shows_what_matters(page, drawn):
    page.open(drawn())
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = page.run(
        "return ['.bar', '.controls'].map((s) => "
        "getComputedStyle(document.querySelector(s)).display)"
    )
    assert hidden == ["none", "none"]
    assert (
        page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
