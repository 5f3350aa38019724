"""Whether the ten steps of the page "Coming from TransformerLens" give the same numbers in both.

    lens/bin/python benchmarks/transformer_lens_calls.py [--json results.json]

It runs the blocks of docs/guides/from-transformer-lens.md in an environment with TransformerLens,
see against_transformer_lens.py, and compares what each step gave.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from against_transformer_lens import LIMIT, PACKAGES, node_of
from transformer_lens.tools.analysis import attribution_patching as lens

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "from-transformer-lens.md"
Pair = tuple[Any, Any]
Names = dict[str, Any]


def run_blocks() -> tuple[Names, Names]:
    """What the names of both are after the blocks of the page ran in a new folder."""
    build, theirs, ours = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    names: tuple[Names, Names] = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(build, {})
        for block, space in ((theirs, names[0]), (ours, names[1])):
            exec(block, space)
        os.chdir("/")
    return names


def steps(theirs: Names, ours: Names) -> Iterator[tuple[str, list[Pair]]]:
    """Each step with the pairs of numbers that should be equal."""
    clean = float(theirs["metric"](theirs["logits"]))
    heads = [(head.layer, head.index, head) for head in ours["patched"].by_head()]
    width = ours["model"].config.hidden_size // ours["model"].config.n_head
    ours_z = ours["run"].values["decoder", 1][0].unflatten(-1, (-1, width))
    yield "2 cache", [(theirs["logits"], ours["logits"]), (theirs["cache"]["z", 1], ours_z)]
    yield "3 zero", [(theirs["without"], ours["without"])]
    yield "4 mean", [(theirs["averaged"], ours["averaged"])]
    values = ours["patched"].values
    yield "5 patch", [(theirs["patched"][a, b], values[head, None]) for a, b, head in heads]
    nodes: defaultdict[str, float] = defaultdict(float)
    for node, score in theirs["scores"].node_scores.items():
        nodes[node_of(node)] += score
    yield "6 attribution", [(nodes[str(head)], ours["scores"][head]) for *_, head in heads]
    edges: defaultdict[tuple[str, str], float] = defaultdict(float)
    for (source, target), score in theirs["edges"].edge_scores.items():
        edges[node_of(source), node_of(target)] += score
    yield "7 edges", [(score, ours["edges"][edge]) for edge, score in edges.items()]
    paths = ours["paths"].highest(len(ours["paths"]))
    cells = [(edge, [int(n) for n in edge.target.split(".")[1:3]]) for edge in paths]
    yield "8 paths", [(theirs["paths"][a, b], clean + paths[edge]) for edge, (a, b) in cells]
    # theirs keeps edges at positions: the same ones at all positions
    kept = {tuple(edge) for edge in ours["edges"].highest(20)}
    same = [e for e in theirs["edges"].edge_scores if (node_of(e[0]), node_of(e[1])) in kept]
    pair = theirs["clean"], theirs["corrupt"]
    recovered = lens.faithfulness(theirs["model"], *pair, theirs["metric"], same).recovered
    yield "9 faithfulness", [(recovered, ours["circuit"].curve[0])]
    table = ours["direct"].by_head()
    yield "10 logits", [(theirs["direct"][4 * a + b], table[head]) for a, b, head in heads]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    file = options.json and options.json.resolve()
    rows = []
    for name, pairs in steps(*run_blocks()):
        both = [[torch.as_tensor(value).detach().double() for value in pair] for pair in pairs]
        apart = max(float((one - two.view_as(one)).abs().max()) for one, two in both)
        largest = max(float(one.abs().max()) for one, _ in both)
        rows.append({"step": name, "numbers": len(pairs), "difference": apart, "largest": largest})
        print(f"{name:16} {apart:.1e} of {largest:.3g}, {len(pairs)} comparisons", flush=True)
    if file:
        facts = {"versions": {name: version(name) for name in PACKAGES}, "steps": rows}
        file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if wrong := [r["step"] for r in rows if r["difference"] > LIMIT * max(1, r["largest"])]:
        sys.exit(f"other numbers in {', '.join(wrong)}")


if __name__ == "__main__":
    main()
