"""Writes docs/coverage.md from the rows of the coverage command, which takes an hour.

deadhead heads --coverage --json > new.json
deadhead heads --coverage --json > old.json   (with the oldest supported transformers)
python docs/coverage.py new.json old.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_suffix(".md")
UNPROVED = "not proved: "
LONGEST = 140  # characters of a reason
INTRO = """# Coverage

Made by `deadhead heads --coverage --json` and `docs/coverage.py` with transformers {transformers} and torch {torch}. Of {types}
model types, **{heads} pass with their heads** and **{neurons} pass with their feed-forward neurons**, {both} of them with both;
{refused} are refused, {absent} have no attention or no model class of their own. A pass means: on a tiny random model of that
type, open gates changed nothing, masked = pruned = reloaded with uneven layers and with a layer emptied, and, where the model
generates text, the same tokens came out with a cache. For neurons this holds for them alone, with nothing or their means in
their place, and, where heads pass, for both removed together. **{filled} also pass with mean fill**: the same identities with
the mean output of the removed heads in their place, `gated(..., fill=means)` = `prune(..., fill=means)` = reloaded, where the
means change the outputs against zeros.
(A part that the text does not run, such as that for images, is cut and reloaded with every model, but its numbers are not
compared.) Conditional DETR, DAB-DETR, DETR, Table Transformer, Gemma 3n and three types of PE Audio-Video are built only where timm
and Pillow are installed. Where heads share key/value heads, {single} also pass with single heads removed (`groups="expand"`).
By default whole groups are removed (`groups="whole"`; elsewhere such a group is a `kv_group`): see
[heads that share key/value heads](heads.md#heads-that-share-keyvalue-heads).

With transformers {old_transformers} and torch {old_torch}, {old_heads} of {old_types} types pass with their heads and
{old_neurons} with their neurons. {differences}
"""
NOT_PROVED = """## Not proved

Here no tiny model could be built from the config alone, or it wants inputs that the command does not make (images with
grids, boxes, audio of a certain shape). They may well work: `deadhead heads MODEL --check` shows it, for models that read text.
"""


def page(new: dict[str, Any], old: dict[str, Any]) -> str:
    """The page for what the coverage command wrote with the newest and the oldest transformers."""
    rows = new["rows"]
    heads = [row for row in rows if row["status"] == "pass"]
    neurons = [row for row in rows if row["neurons"] == "pass"]
    both = [row for row in heads if row in neurons]
    refused = [row for row in rows if row["status"] == "refused"]
    unproved = [row for row in refused if row["reason"].startswith(UNPROVED)]
    filled = sum(row["mean_fill"] == "pass" for row in heads)
    intro = INTRO.format(
        types=len(rows),
        heads=len(heads),
        neurons=len(neurons),
        both=len(both),
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
    return "\n".join(
        (
            intro,
            "## Pass with heads and with neurons\n",
            _names(both),
            "## Pass with heads alone\n",
            "| model type | why not with neurons |\n|---|---|",
            *(
                f"| {row['model_type']} | {_short(row['neurons'])} |"
                for row in heads
                if row not in neurons
            ),
            "\n## Pass with neurons alone\n",
            "They have no heads, or these are refused or not proved, for the reason below.\n",
            _names(row for row in neurons if row not in heads),
            "## Heads refused\n",
            "They have no place for a gate or a cut, or the proof fails, as the reason says.\n",
            "| model type | why |\n|---|---|",
            *(
                f"| {row['model_type']} | {_short(row['reason'])} |"
                for row in refused
                if row not in unproved
            ),
            f"\n{NOT_PROVED}",
            "| model type | why |\n|---|---|",
            *(f"| {row['model_type']} | {_unproved(row['reason'])} |" for row in unproved),
            "",
        )
    )


def _single(rows: Iterable[dict[str, Any]]) -> str:
    results = [row["single_heads"] for row in rows if row.get("single_heads")]
    passes = results.count("pass")
    return f"all {passes} types" if passes == len(results) else f"{passes} of {len(results)} types"


def _differences(new: Iterable[dict[str, Any]], old: Iterable[dict[str, Any]]) -> str:
    """The types that pass with the newest version alone, of those that both versions have."""
    before = {row["model_type"]: row["status"] for row in old}
    passes = {row["model_type"] for row in new if row["status"] == "pass"}
    only_new = sorted(name for name in passes if before.get(name, "pass") != "pass")
    known = {row["model_type"] for row in new}
    lost = sorted(n for n, s in before.items() if s == "pass" and n in known and n not in passes)
    sentences = []
    if only_new:
        sentences.append(
            f"Of the types that both have, {', '.join(only_new)} pass with the newer alone."
        )
    if lost:
        sentences.append(f"{', '.join(lost)} pass with the older alone.")
    return " ".join(sentences) or "The types that both have pass with both or with neither."


def _names(rows: Iterable[dict[str, Any]]) -> str:
    return ", ".join(row["model_type"] for row in rows) + ".\n"


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
    return reason.replace("|", "\\|").rstrip(".")


def _unproved(reason: str) -> str:
    """What stopped the proof, in the words of the model's own code, without its further lines."""
    reason = reason.removeprefix(UNPROVED)
    reason = re.sub(r"(\w+Error: )Class validation error for validator '\w+': \w+: ", r"\1", reason)
    reason = re.split(r"\. |; |<module", reason)[0].replace("|", "\\|").rstrip(". ")
    return reason if len(reason) <= LONGEST else f"{reason[:LONGEST].rsplit(' ', 1)[0]} ..."


def main() -> None:
    new, old = (json.loads(Path(file).read_text()) for file in sys.argv[1:])
    PAGE.write_text(page(new, old))


if __name__ == "__main__":
    main()
