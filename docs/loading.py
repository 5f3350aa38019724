"""Writes docs/loading.md and docs/loading.csv: who loads a pruned folder of each model type where deadhead is not installed.

    python docs/loading.py rows.jsonl            # every model type of transformers, and then the page
    python docs/loading.py rows.jsonl llama t5   # only these types, and then the page

Each type becomes a line of rows.jsonl as soon as it is measured, and a type that has a line is skipped: begin with
a new file to measure all again, and call it once more after an interruption. The page has the rows of the whole file.

tools/architectures/test_loading_page.py measures a few types again and compares them with the page.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # for `architectures`
PAGE = Path(__file__).with_suffix(".md")
TABLE = PAGE.with_suffix(".csv")
INTRO = """# Without deadhead

A pruned folder can be loaded where deadhead is not installed. [The table](loading.csv) says how, for {count} model types,
measured on tiny random models with transformers {version}: each folder gave the answers of the pruned model.

| in the table | what loads the folder that `save` wrote |
|---|---|
| plain | `AutoModel.from_pretrained`, as small as it is |
| loader | `load_pruned.py` in the folder, with torch and transformers alone |
| padded | only a folder of the padded form, with plain `AutoModel` |
| deadhead | only `deadhead.load` |

`even`: every layer lost the same number of heads. `uneven`: the layers lost different numbers, and the first layer of each
block with several attention layers lost all of them. [Save and load](heads.md#without-deadhead) explains the forms.

Made by `docs/loading.py`.
"""


def measure(model_type: str) -> dict[str, str]:
    """Who loads the folders of a tiny model of this type; empty values if it cannot be pruned."""
    from architectures.runnable import inputs_for, runnable
    from architectures.tiny import NotApplicable
    from deadhead.errors import DeadheadError
    from deadhead.heads import discover, prune
    from deadhead.verify.proof import sample

    row = {"model_type": model_type, "even": "", "uneven": ""}
    for column in ("even", "uneven"):
        try:
            model = runnable(model_type).eval()
            layout = discover(model)
            groups = [group for a in layout.attentions for group in a.groups[: len(a.groups) // 2]]
            even = [head for group in groups for head in group]
            prune(model, even if column == "even" else sample(layout, True))
            row[column] = loaded_by(model, inputs_for(model)[0])
        except DeadheadError:
            return row
        except NotApplicable:
            row[column] = "not measured: needs timm or Pillow"
        except Exception as problem:  # whatever the code of a model raises
            row[column] = f"not measured: {type(problem).__name__}"
    return row


def loaded_by(model: Any, batch: Any) -> str:
    """The first way to load the folder that gives the answers of the model."""
    import torch

    from deadhead.heads import load_pruned, save
    from deadhead.verify.proof import difference, outputs

    def equal(again: Any) -> bool:
        with torch.no_grad():
            return difference(expected, outputs(again.eval(), batch)) < 1e-4

    with torch.no_grad():
        expected = outputs(model, batch)
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        if (Path(folder) / load_pruned.PLAN).exists():
            return "loader" if equal(load_pruned.load(folder)) else "deadhead"
        if "unpruned" in json.loads((Path(folder) / "config.json").read_text())["deadhead"]:
            return "plain" if equal(type(model).from_pretrained(folder)) else "wrong"
        save(model, folder, form="padded")
        return "padded" if equal(type(model).from_pretrained(folder)) else "deadhead"


def main() -> None:
    import transformers

    from architectures.coverage import model_types

    warnings.simplefilter("ignore")
    file = Path(sys.argv[1])
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    measured = {row["model_type"] for row in rows}
    for model_type in sys.argv[2:] or model_types():
        if model_type not in measured:
            rows.append(measure(model_type))
            with file.open("a") as log:
                log.write(json.dumps(rows[-1]) + "\n")
    rows = sorted((row for row in rows if row["uneven"]), key=lambda row: str(row["model_type"]))
    lines = [",".join((row["model_type"], row["even"], row["uneven"])) for row in rows]
    count = sum(not row["uneven"].startswith("not measured") for row in rows)
    PAGE.write_text(INTRO.format(version=transformers.__version__, count=count))
    TABLE.write_text("\n".join(("model_type,even,uneven", *lines)) + "\n")


if __name__ == "__main__":
    main()
