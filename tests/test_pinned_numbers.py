"""The numbers of the 16 study archives in docs/results do not change.

The tests read everything again (`pinned_numbers.py`) and compare it with what is stored.

    python -m pytest tests/test_pinned_numbers.py -k sst2-rates      one archive, a few seconds
    python -m pytest tests/test_pinned_numbers.py -k page            the pages of all archives
"""

import json
import lzma
import os
from functools import cache
from math import isclose
from pathlib import Path
from random import Random

import pytest

from pinned_numbers import (
    ARCHIVES,
    PINNED,
    RECIPES,
    SECTIONS,
    count,
    is_number,
    numbers_in,
    papers_verdicts,
    recipe_section,
    to_json,
    unpack,
    verdicts,
)


def differences(pinned, got, key):
    """A line for each number that is not as it was; of a claim not tested, the word alone."""
    if isinstance(pinned, dict) and pinned.get("verdict") == "untested":
        pinned, got = ({"verdict": one["verdict"]} for one in (pinned, got))
    if isinstance(pinned, dict) and isinstance(got, dict):
        for name in [*pinned, *(name for name in got if name not in pinned)]:
            if name not in pinned or name not in got:
                yield f"{key} > {name}: pinned {clip(pinned, name)}, got {clip(got, name)}"
            else:
                yield from differences(pinned[name], got[name], f"{key} > {name}")
    elif isinstance(pinned, list) and isinstance(got, list):
        if len(pinned) != len(got):
            yield f"{key}: pinned {len(pinned)} entries {clip(pinned)}, got {len(got)} {clip(got)}"
        for place, (one, other) in enumerate(zip(pinned, got, strict=False)):
            yield from differences(one, other, f"{key} > {place}")
    elif not equal(pinned, got):
        yield f"{key}: pinned {pinned!r}, got {got!r}"


def clip(value, name=None):
    if name is not None:
        return "nothing" if name not in value else clip(value[name])
    return json.dumps(value)[:200]


def equal(pinned, got):
    if is_number(pinned) and is_number(got):
        return isclose(pinned, got, rel_tol=1e-9, abs_tol=1e-12)
    return type(pinned) is type(got) and pinned == got


def compare(pinned, got, key):
    lines = list(differences(pinned, to_json(got), key))
    more = f"\n... and {len(lines) - 20} more" if len(lines) > 20 else ""
    assert not lines, f"{len(lines)} pinned numbers differ:\n" + "\n".join(lines[:20]) + more


@pytest.fixture(scope="module")
def pinned():
    return json.loads(lzma.decompress(PINNED.read_bytes()))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder of an archive, unpacked when it is first used."""
    home = tmp_path_factory.mktemp("archives")
    return cache(lambda archive: unpack(archive, home))


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("archive", ARCHIVES)
def test_archive(archive, section, study, pinned):
    key = f"{archive} > {section}"
    compare(pinned["archives"][archive][section], SECTIONS[section](study(archive)), key)


def test_verdicts_on_all_archives_together(study, pinned):
    compare(pinned["together"], verdicts(*map(study, ARCHIVES)), "all archives")


def test_verdicts_on_the_papers_own_tables(pinned):
    compare(pinned["papers"], papers_verdicts(), "papers")


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name, tmp_path, monkeypatch, pinned):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
    compare(pinned["recipes"][name], recipe_section(name), name)


def test_nothing_pinned_is_left_out(pinned):
    assert len(ARCHIVES) == 16
    assert sorted(pinned["archives"]) == ARCHIVES
    assert sorted(pinned["recipes"]) == sorted(RECIPES)
    assert all(stored.keys() == SECTIONS.keys() for stored in pinned["archives"].values())


def test_thousands_of_numbers_are_pinned(pinned):
    archives = pinned["archives"].values()
    pages = [archive["page"] for archive in archives]
    tables = [table for page in pages for table in page["tables"]]
    cells = [cell for table in tables for row in table["cells"] for cell in row]
    rows = [row for page in pages for figure in page["figures"] for row in figure["rows"]]
    assert {name: sum(count(archive[name]) for archive in archives) for name in SECTIONS} == {
        "scores": 32_808,
        "searches": 12_660,
        "frame": 1_334,
        "page": 132_384,
        "verdicts": 8_270,
    }
    assert (len(cells), sum("p" in cell for cell in cells), len(rows)) == (2_953, 708, 15_693)
    assert {cell["mark"] for cell in cells} == {None, "better", "worse"}
    assert (count(pinned["together"]), count(pinned["papers"])) == (1_294, 1_131)


@pytest.mark.parametrize("section", SECTIONS)
def test_one_changed_number_is_seen(section, tmp_path, pinned):
    folder = unpack("ner-search", tmp_path)
    record = sorted((folder / "records").iterdir())[0]
    stored = json.loads(record.read_text(encoding="utf-8"))
    stored["metrics"] = {name: value + 0.001 for name, value in stored["metrics"].items()}
    record.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(AssertionError, match=rf"ner-search > {section} > .*: pinned .*, got "):
        compare(
            pinned["archives"]["ner-search"][section],
            SECTIONS[section](folder),
            f"ner-search > {section}",
        )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("section", SECTIONS)
def test_the_order_of_files_does_not_matter(section, seed, tmp_path, monkeypatch, pinned):
    folder, scan = unpack("rankers-cut", tmp_path), os.scandir

    def ordered(path="."):
        if Path(path).name != "records":
            return scan(path)
        names = sorted(scan(path), key=lambda entry: entry.name)
        return Random(seed).sample(names, len(names))

    monkeypatch.setattr(os, "scandir", ordered)
    key = f"rankers-cut > {section}"
    compare(pinned["archives"]["rankers-cut"][section], SECTIONS[section](folder), key)


@pytest.mark.parametrize(
    ("one", "other", "line"),
    [
        (1.0, 1.0000001, "k: pinned 1.0, got 1.0000001"),
        ({"a": 1}, {}, "k > a: pinned 1, got nothing"),
        ({}, {"a": 1}, "k > a: pinned nothing, got 1"),
        ([1], [1, 2], "k: pinned 1 entries [1], got 2 [1, 2]"),
        ("holds", "fails", "k: pinned 'holds', got 'fails'"),
        (None, 0, "k: pinned None, got 0"),
    ],
)
def test_the_comparison_says_what_differs(one, other, line):
    assert list(differences(one, other, "k")) == [line]
    assert not list(differences(one, one, "k"))


def test_rounding_between_machines_is_no_difference():
    assert not list(differences([0.1 + 0.2, 0], [0.3, 1e-17], "k"))


def test_numbers_in_sentences():
    text = "In 5 of 1,039 pairs F1 is +0.94 (p < 0.001), 95 % interval +-0.46; sst2, 2e-05, -3."
    assert numbers_in(text) == sorted([5, 1039, 0.94, 0.001, 95, 0.46, 2e-05, -3])
