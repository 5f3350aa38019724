"""Writes docs/coverage.md and docs/coverage.csv from the survey of all types, which takes an hour.

PYTHONPATH=tools python -m architectures.coverage > new.json
PYTHONPATH=tools python -m architectures.coverage > old.json  (with the oldest supported transformers)
python docs/coverage.py new.json old.json
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_suffix(".md")
TABLE = PAGE.with_suffix(".csv")
COLUMNS = ("model_type", "heads", "neurons", "why")
UNPROVED = "not proved: "
LONGEST = 140  # characters of a reason
INTRO = """# Architectures

Of {types} model types of transformers {transformers} (torch {torch}), **{heads} pass with their heads** and
**{neurons} pass with their feed-forward neurons**, {both} of them with both. {refused} are refused or not
proved; {absent} have no attention or no model class of their own.

[The table](coverage.csv) has a row for each type that has heads or neurons:

| `heads` | meaning |
|---|---|
| `pass` | the proof below holds |
| `refused` | a gate or a cut is impossible, or the proof fails; `why` gives the reason |
| `not proved` | no tiny model could be built from the config alone, or its inputs are of a kind that the survey does not make. Such a type may work: `deadhead heads MODEL --check` proves it for models that read text |
| `none` | no heads to remove |

`neurons` is `pass` or empty. Where the heads pass and the neurons do not, `why` is about the neurons.

## What a pass proves

On a tiny random model of the type:

- open gates change nothing;
- masked = pruned = reloaded, with uneven layers and with an empty layer;
- a model that generates text gives the same tokens with a cache;
- for neurons: the same for them alone, with zeros or their means as the fill, and together with heads where those pass.

**{filled} also pass with mean fill**: `gated(..., fill=means)` = `prune(..., fill=means)` = reloaded, where the means change
the outputs against zeros. Where heads share key/value heads (a `kv_group`), {single} also pass with single heads removed
(`groups="expand"`); by default whole groups are removed (`groups="whole"`). See
[heads that share key/value heads](heads.md#heads-that-share-keyvalue-heads).

Parts that do not read text, such as an image encoder beside a language model, are cut and reloaded with the model, but their
numbers are not compared. Conditional DETR, DAB-DETR, DETR, Table Transformer, Gemma 3n and three types of PE Audio-Video
are built only where timm and Pillow are installed.

## Older versions

With transformers {old_transformers} and torch {old_torch}, {old_heads} of {old_types} types pass with their heads and
{old_neurons} with their neurons. {differences}

Made by `python -m architectures.coverage` in the folder `tools` of the repository, and `docs/coverage.py`.
"""


def page(new: dict[str, Any], old: dict[str, Any]) -> str:
    """The page for what `architectures.coverage` wrote with the newest and the oldest transformers."""
    rows = new["rows"]
    heads = [row for row in rows if row["status"] == "pass"]
    neurons = [row for row in rows if row["neurons"] == "pass"]
    refused = [row for row in rows if row["status"] == "refused"]
    filled = sum(row["mean_fill"] == "pass" for row in heads)
    return INTRO.format(
        types=len(rows),
        heads=len(heads),
        neurons=len(neurons),
        both=sum(row["neurons"] == "pass" for row in heads),
        refused=len(refused),
        absent=len(rows) - len(heads) - len(refused),
        filled=f"All {filled}" if filled == len(heads) else filled,
        transformers=new["transformers"],
        torch=new["torch"].split("+")[0],
        single=_single(rows),
        old_transformers=old["transformers"],
        old_torch=old["torch"].split("+")[0],
        old_heads=sum(row["status"] == "pass" for row in old["rows"]),
        old_neurons=sum(row["neurons"] == "pass" for row in old["rows"]),
        old_types=len(old["rows"]),
        differences=_differences(rows, old["rows"]),
    )


def table(rows: Iterable[dict[str, Any]]) -> str:
    """The table as CSV: the types that have heads or neurons, sorted by name."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sorted(rows, key=lambda row: str(row["model_type"])):
        if row["status"] != "n/a" or row["neurons"] == "pass":
            writer.writerow((row["model_type"], *_result(row)))
    return out.getvalue()


def _result(row: dict[str, Any]) -> tuple[str, str, str]:
    """Heads, neurons and why: the last three columns."""
    neurons = "pass" if row["neurons"] == "pass" else ""
    if row["status"] == "pass":
        return "pass", neurons, "" if neurons else _short(row["neurons"])
    if row["status"] == "n/a":
        return "none", neurons, ""
    if row["reason"].startswith(UNPROVED):
        return "not proved", neurons, _unproved(row["reason"])
    return "refused", neurons, _short(row["reason"])


def _single(rows: Iterable[dict[str, Any]]) -> str:
    results = [row["single_heads"] for row in rows if row.get("single_heads")]
    passes = results.count("pass")
    return f"all {passes} types" if passes == len(results) else f"{passes} of {len(results)} types"


def _differences(new: Iterable[dict[str, Any]], old: Iterable[dict[str, Any]]) -> str:
    """The types that pass with the newest version alone, of those that both versions have."""
    before = {row["model_type"]: row["status"] for row in old}
    passes = {row["model_type"] for row in new if row["status"] == "pass"}
    only_new = sorted(name for name in passes if before.get(name, "pass") != "pass")
    listed = {row["model_type"] for row in new}
    only_old = sorted(n for n, s in before.items() if s == "pass" and n in listed - passes)
    sentences = []
    if only_new:
        sentences.append(
            f"Of the types that both have, {', '.join(only_new)} pass with the newer alone."
        )
    if only_old:
        sentences.append(f"{', '.join(only_old)} pass with the older alone.")
    return " ".join(sentences) or "The types that both have pass with both or with neither."


def _short(reason: str) -> str:
    """The first reason in a message, without the model type and the paths of modules."""
    for opening in ("like its attention: ", "can gate: ", "deadhead knows: "):
        reason = reason.split(opening)[-1]
    path = r"[a-z_0-9]+(\.[A-Za-z_0-9]+)+"
    reason = re.split(rf" {path}(:|  ?\()", reason)[0]  # the first of several layers
    reason = re.sub(rf"^{path}: ", "", reason)
    reason = re.sub(rf"^{path} +\((.*)\)$", r"its parts go by other names: \2", reason)
    reason = re.sub(r"^\w+ is latent", "latent", reason)
    reason = re.sub(r"^the model in \S+ cannot", "the saved model cannot", reason)
    reason = re.sub(
        r", so (no (head|neuron) can|their neurons cannot) be removed alone$", "", reason
    )
    return reason.rstrip(".")


def _unproved(reason: str) -> str:
    """What stopped the proof, in the words of the model's own code, without its further lines."""
    reason = reason.removeprefix(UNPROVED)
    reason = re.sub(r"(\w+Error: )Class validation error for validator '\w+': \w+: ", r"\1", reason)
    reason = re.split(r"\. |; |<module", reason)[0].rstrip(". ")
    return reason if len(reason) <= LONGEST else f"{reason[:LONGEST].rsplit(' ', 1)[0]} ..."


def main() -> None:
    new, old = (json.loads(Path(file).read_text()) for file in sys.argv[1:])
    PAGE.write_text(page(new, old))
    TABLE.write_text(table(new["rows"]))


if __name__ == "__main__":
    main()
