"""The page as a file: self-contained, small enough, and unable to run what it was not made with."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from free_steps import made_study
from page_content import HOSTILE, made_content

from deadhead.errors import DeadheadError
from deadhead.report.page import html as page
from deadhead.report.page.html import html, write

ASSETS = Path(page.__file__).parent / "assets"


CONTENT = re.compile(r'<script type="application/json" id="content">(.*?)</script>', re.DOTALL)


def embedded(page):
    """The contents of the studies of a page."""
    return json.loads(CONTENT.search(page)[1])["studies"]


def test_the_content_comes_back_out_of_the_page_unchanged():
    data = made_content(hostile=HOSTILE)
    assert embedded(html(data)) == [data]


def test_nothing_is_loaded_from_elsewhere():
    whole = html(made_content())
    ours = whole.replace(page._vega(), "").replace(json.dumps(made_content()), "")
    assert re.findall(r'(?:src|href)="([^"]+)"', ours) == ["data:,", "#main", "#top"]
    assert "@import" not in ours
    assert "url(" not in ours
    assert "connect-src 'none'" in ours


def test_the_policy_names_every_script_by_its_hash_and_allows_no_other():
    whole = html(made_content())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', whole)[1]
    scripts = re.findall(r"<script>(.*?)</script>", whole, re.DOTALL)
    assert len(scripts) == 2  # Vega and ours
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    }
    assert set(re.search(r"script-src ([^;]+)", policy)[1].split()) == hashes
    assert "unsafe" not in policy


def test_text_of_the_data_cannot_end_its_script():
    whole = html(made_content(hostile=HOSTILE))
    clean = html(made_content())
    for tag in ("<script", "</script", "<img"):
        assert whole.count(tag) == clean.count(tag)
    assert "\\u003cimg" in whole  # it is there, as text


def test_scripts_of_our_own_never_make_markup_out_of_text():
    for file in ASSETS.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
            file.read_text(),
        ), file.name


def test_a_page_without_figures_needs_no_vega(monkeypatch):
    monkeypatch.setattr(page, "_vega", lambda: pytest.fail("Vega was asked for"))
    assert len(html(made_content() | {"figures": []})) < 200_000


def test_what_is_no_number_becomes_none():
    data = made_content() | {"figures": [], "findings": [float("nan")]}
    assert embedded(html(data))[0]["findings"] == [None]


def test_twenty_thousand_trials_fit_and_records_give_way_first():
    data = made_content()
    assert embedded(html(data))[0]["records"] == data["records"]  # where there is room nothing goes
    fields = ["id", "state", "remove", "seed", "score", *"abcdefghi"]
    more = [round(n / 3 % 100, 2) for n in range(9)]
    rows = [[f"{n:016x}", "done", f"random {n % 90}", n % 5, 0.25, *more] for n in range(20_000)]
    big = data | {"trials": {"fields": fields, "rows": rows}}
    record = next(iter(data["records"].values()))

    def page_with(**heavy):
        whole = html(big | {"records": {f"{n:016x}": record | heavy for n in range(300)}})
        assert len(whole.encode()) < page.MOST
        return embedded(whole)[0]

    lighter = page_with(sample=["x" * 20_000])
    assert lighter["trials"] == big["trials"]
    assert len(lighter["records"]) == 300
    assert not any("sample" in one for one in lighter["records"].values())
    assert 0 < len(page_with(cost="x" * 50_000)["records"]) < 300


def test_write_draws_a_study_or_several(tmp_path):
    one, two = made_study(tmp_path / "one"), made_study(tmp_path / "two")
    (single,) = embedded(write(one, tmp_path / "out" / "page.html").read_text())
    assert single["progress"]["done"] == 7
    both = embedded(write([one, two], tmp_path / "both.html").read_text())
    assert [study["folder"] for study in both] == ["one", "two"]


def test_an_unwritable_file_is_reported(tmp_path):
    study = made_study(tmp_path / "one")
    (tmp_path / "file").write_text("")
    with pytest.raises(DeadheadError, match=r"cannot write .*page.html: .*\n  Hint: .*--out"):
        write(study, tmp_path / "file" / "page.html")


def _luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
@pytest.mark.parametrize("ink", ["ink", "soft", "faint", "accent", "better", "worse", "failed"])
def test_text_can_be_read_on_every_ground(theme, ink):
    style = (ASSETS / "page.css").read_text()
    block = style[style.index(theme) : style.index("}", style.index(theme))]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
    for ground in ("paper", "raised", "sunk"):
        assert contrast(colours[ink], colours[ground]) >= 4.5, f"{ink} on {ground}"


def test_vega_is_bundled_once_and_a_damaged_copy_again(tmp_path, monkeypatch):
    table = []
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(
        "vl_convert.javascript_bundle", lambda snippet: table.append(snippet) or "vega </script>"
    )
    bundle = page._vega.__wrapped__
    assert bundle() == bundle() == "vega <\\/script>"
    assert len(table) == 1
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text().replace("vega", "evil"))
    assert bundle() == "vega <\\/script>"
    assert len(table) == 2
    monkeypatch.setenv("DEADHEAD_CACHE", "/dev/null/nowhere")
    assert bundle() == "vega <\\/script>"
