"""The page and the table of architectures: made from the survey, with true counts."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from deadhead.layout import GROUPS

DOCS = Path(__file__).parents[2] / "docs"
EXPERTS = "is a mixture of experts: a token passes only some of them"
ROWS = [
    {"model_type": "bert", "status": "pass", "reason": "8 heads", "neurons": "pass"},
    {
        "model_type": "mixtral",
        "status": "pass",
        "reason": "8 heads",
        "neurons": "'mixtral' has no feed-forward layer that deadhead knows: model.layers.0.mlp: "
        f"MixtralSparseMoeBlock {EXPERTS}, so no neuron can be removed alone model.layers.1.mlp: "
        f"MixtralSparseMoeBlock {EXPERTS}, so no ne",
    },
    {
        "model_type": "youtu",
        "status": "refused",
        "reason": "no attention of 'youtu' has heads that deadhead can gate: "
        "model.layers.0.self_attn: YoutuAttention is latent attention: its heads share all | some",
        "neurons": "pass",
    },
    {
        "model_type": "ibert",
        "status": "refused",
        "reason": "'ibert' has no attention that deadhead can gate. This looks like its "
        "attention: encoder.layer.0.attention (self, output) encoder.layer.1.attention (self, out",
        "neurons": "'ibert' has no feed-forward layer that deadhead knows.",
    },
    {
        "model_type": "blip",
        "status": "refused",
        "reason": "not proved: no tiny model can be built: ValueError: 1 | 2. Set 3 instead",
        "neurons": "",
    },
    {"model_type": "resnet", "status": "n/a", "reason": "no attention", "neurons": ""},
]


@pytest.fixture(scope="module")
def page_script() -> Any:
    return SimpleNamespace(**run_path(str(DOCS / "coverage.py")))


def test_the_page_counts_and_the_table_lists_with_short_reasons(page_script: Any) -> None:
    rows = [{"mean_fill": "pass" if r["status"] == "pass" else "", **r} for r in ROWS]
    rows[0]["single_heads"] = "pass"
    older = [{**r, "status": "refused"} if r["model_type"] == "mixtral" else r for r in rows]
    new = {"transformers": "5.22", "torch": "2.13+cpu", "rows": rows}
    page = page_script.page(new, {"transformers": "5.17", "torch": "2.11", "rows": older[:-1]})
    page = " ".join(page.split())
    assert "Of 6 model types of transformers 5.22 (torch 2.13), **2 pass with their heads**" in page
    assert (
        "**2 pass with their feed-forward neurons**, 1 of them with both. "
        "3 are refused or not proved; 1" in page
    )
    assert "**All 2 also pass with mean fill**" in page
    assert "(a `kv_group`), all 1 types also pass" in page
    assert "With transformers 5.17 and torch 2.11, 1 of 5 types pass with their heads and 2" in page
    assert "Of the types that both have, mixtral pass with the newer alone." in page
    header, *lines = csv.reader(page_script.table(rows).splitlines())
    assert header == ["model_type", "heads", "neurons", "why"]
    assert lines == [
        ["bert", "pass", "pass", ""],
        ["blip", "not proved", "", "no tiny model can be built: ValueError: 1 | 2"],
        ["ibert", "refused", "", "its parts go by other names: self, output"],
        ["mixtral", "pass", "", f"MixtralSparseMoeBlock {EXPERTS}"],
        ["youtu", "refused", "pass", "latent attention: its heads share all | some"],
    ]


@pytest.mark.parametrize("page", ["heads.md", "coverage.md"])
def test_both_ways_to_remove_grouped_heads_are_named(page: str) -> None:
    """Also under the name that other tools have for such a group."""
    text = (DOCS / page).read_text(encoding="utf-8")
    sections = [part for part in re.split(r"\n#+ ", text) if "`kv_group`" in part]
    assert len(sections) == 1
    assert all(f'groups="{way}"' in sections[0] for way in GROUPS)


def test_the_counts_of_the_page_are_those_of_the_table(page_script: Any) -> None:
    with page_script.TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["model_type"] for row in rows] == sorted({row["model_type"] for row in rows})
    heads = [row for row in rows if row["heads"] == "pass"]
    neurons = [row for row in rows if row["neurons"] == "pass"]
    refused = [row for row in rows if row["heads"] in ("refused", "not proved")]
    both = [row for row in heads if row in neurons]
    start = " ".join(page_script.PAGE.read_text(encoding="utf-8").split("\n## ")[0].split())
    assert [*map(int, re.findall(r"\*\*(\d+) pass with their", start))] == [
        len(heads),
        len(neurons),
    ]
    assert f"{len(both)} of them with both. {len(refused)} are refused or not proved;" in start
    assert {row["heads"] for row in rows} == {"pass", "refused", "not proved", "none"}
    for row in rows:  # a reason wherever something does not pass
        assert bool(row["why"]) == (row["heads"] != "none" and row not in both)
