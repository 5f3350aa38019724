"""Writes docs/coverage.md from the rows of the coverage command, which takes half an hour.

deadhead heads --coverage --json > rows.json
python docs/coverage.py rows.json
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
compared.) The promised ones also pass with transformers 5.17.0 and torch 2.11.0.
"""
NOT_PROVED = """## Not proved

Here no tiny model could be built from the config alone, or it wants inputs that the command does not make (images with
grids, boxes, audio of a certain shape). They may well work: `deadhead heads MODEL --check` shows it, for models that read text.
"""


def page(rows: list[dict[str, Any]], versions: dict[str, str]) -> str:
    """The page for these rows of the coverage command."""
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
        **versions,
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
            "## Heads refused for what they are\n",
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
    import torch
    import transformers

    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    PAGE.write_text(page(json.loads(Path(sys.argv[1]).read_text()), versions))


if __name__ == "__main__":
    main()
