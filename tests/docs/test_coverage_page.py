"""The page of architectures: made from rows of the coverage command, with counts that are true."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
from doc_blocks import ROOT

from deadhead.layout import GROUPS

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
def script() -> Any:
    spec = importlib.util.spec_from_file_location("coverage_page", ROOT / "docs" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_type_is_in_its_place_with_a_short_reason(script: Any) -> None:
    rows = [{"mean_fill": "pass" if r["status"] == "pass" else "", **r} for r in ROWS]
    rows[0]["single_heads"] = "pass"
    older = [{**r, "status": "refused"} if r["model_type"] == "mixtral" else r for r in rows]
    new = {"transformers": "5.22", "torch": "2.13+cpu", "rows": rows}
    page = script.page(new, {"transformers": "5.17", "torch": "2.11", "rows": older[:-1]})
    start, *sections = re.split(r"^## ", page, flags=re.M)
    both, heads, neurons, refused, unproved = sections
    assert "Of 6\nmodel types, **2 pass with their heads** and **2 pass with" in start
    assert "1 of them with both;\n3 are refused, 1 have no attention" in start
    assert "**All 2 also pass with mean fill**" in start
    assert "with transformers 5.22 and torch 2.13." in start
    assert "share key/value heads, all 1 types also pass" in start
    assert (
        "With transformers 5.17 and torch 2.11, 1 of 5 types pass with their heads and\n2" in start
    )
    assert "Of the types that both have, mixtral pass with the newer alone." in start
    assert both.endswith("\nbert.\n\n")
    assert f"| mixtral | MixtralSparseMoeBlock {EXPERTS} |\n" in heads
    assert neurons.endswith("\nyoutu.\n\n")
    assert "| youtu | latent attention: its heads share all \\| some |\n" in refused
    assert "| ibert | its parts go by other names: self, output |\n" in refused
    assert unproved.endswith("\n| blip | no tiny model can be built: ValueError: 1 \\| 2 |\n")


@pytest.mark.parametrize("page", ["heads.md", "coverage.md"])
def test_both_ways_to_remove_grouped_heads_are_named(page: str) -> None:
    """Also under the name that other tools have for such a group."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    sections = [part for part in re.split(r"\n#+ ", text) if "`kv_group`" in part]
    assert len(sections) == 1
    assert all(f'groups="{way}"' in sections[0] for way in GROUPS)


def test_the_counts_of_the_page_are_those_of_its_lists(script: Any) -> None:
    start, *sections = re.split(r"^## ", script.PAGE.read_text(encoding="utf-8"), flags=re.M)
    both, heads, neurons, refused, unproved = map(_types, sections)
    heads_pass, neurons_pass = map(int, re.findall(r"\*\*(\d+) pass with their", start))
    assert heads_pass == len(both) + len(heads)
    assert neurons_pass == len(both) + len(neurons)
    assert f"{len(both)} of them with both;" in start
    assert f"{len(refused) + len(unproved)} are refused" in start
    assert set(neurons).isdisjoint({*both, *heads})
    assert set(refused).isdisjoint({*both, *heads, *unproved})


def _types(section: str) -> list[str]:
    """The model types of a section: the rows of its table, or the list in its last line."""
    rows = re.findall(r"^\| ([^ ]+) \|", section, flags=re.M)
    last = section.strip().splitlines()[-1].rstrip(".")
    return rows or last.split(", ")
