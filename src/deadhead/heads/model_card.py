"""The model card of a saved model: what was removed from which model, and how to load it."""

import re
from pathlib import Path
from typing import Any

import yaml
from torch import nn

from deadhead.files.hub import split
from deadhead.files.yaml_limits import refused_in
from deadhead.layout import HeadLayout, spans

from .discover import layout_of
from .model_files import CARD, MODULES, encoder_class, leaves
from .site import Site

REMOVING = "with deadhead by removing"  # in cards of earlier versions, which have no mark
MARK = "<!-- made by deadhead -->"
RESULTS = ("model-index",)  # front matter with results of the source
WITH_DEADHEAD = '```python\nimport deadhead\nmodel = deadhead.load("PATH")\n```'
HOW = {  # by what plain transformers does with the folder
    "compact": f"{WITH_DEADHEAD}\n\nPlain `from_pretrained` refuses these shapes.",
    "loader": f"{WITH_DEADHEAD}\n\nPlain `from_pretrained` refuses these shapes. Without deadhead, "
    "the file `load_pruned.py` of this folder loads them, with torch and transformers alone. Read "
    "it first, as any code that you run:\n\n"
    '```python\nimport sys\n\nsys.path.append("PATH")\nfrom load_pruned import load\n\n'
    'model = load("PATH")\n```',
    "plain": "Loads with plain `AutoModel.from_pretrained`, and is as small there: config.json has "
    "the sizes that are left. `deadhead.load` also knows the original numbers of the heads.",
    "padded": "Loads with plain `AutoModel.from_pretrained`: shapes are those of the unpruned "
    "model and what was removed is zero. Meant for inference: in training, zeroed heads grow "
    "back. `deadhead.load` cuts them out again.",
}
ENCODER = "```python\nfrom sentence_transformers import {name}\n\n"
ENCODER += 'encoder = {name}("PATH"{more})\n```'
UNPRUNED = "Loads with plain `from_pretrained` of transformers, and with `deadhead.load`."


def is_ours(text: str) -> bool:
    """Whether deadhead wrote a card, so that it may replace it."""
    return MARK in text or REMOVING in text


def card(
    model: nn.Module, sites: list[Site], form: str, source: Path | None = None, note: str = ""
) -> str:
    """The card of this model. source: the folder it came from; note: what else happened to it."""
    layout = layout_of(sites)
    front = _front_matter(source)
    tags = front.get("tags") or []
    tags = [*(tags if isinstance(tags, list) else [tags]), "deadhead"]
    pruned = layout.removed or any(f.removed for f in layout.feed_forwards)
    if pruned:
        tags.append("pruned")
    new = {"library_name": "transformers", **front, "tags": [*dict.fromkeys(tags)]}
    if (name := _name(model)) and not Path(name).is_absolute() and "/" in name:
        new["base_model"] = split(name)[0]
    # without removed heads, a refit may still have added biases
    load = f"## Load\n\n{HOW[form] if pruned or form == 'loader' else UNPRUNED}"
    if source is not None and (source / MODULES).exists() and (name := encoder_class(source)):
        more = ", trust_remote_code=True" if form == "loader" else ""
        load += f"\n\n{ENCODER.format(name=name, more=more)}"
        if form == "loader":
            load += "\n\nIt runs `load_encoder.py` of this folder: read it first."
    parts = (_changes(model, layout), _neurons(layout), note, load)
    text = "\n\n".join(part for part in parts if part)
    return (
        f"---\n{yaml.safe_dump(new, sort_keys=False, allow_unicode=True)}---\n\n{MARK}\n\n{text}\n"
    )


def _changes(model: Any, layout: HeadLayout) -> str:
    """Which heads were removed from which model, and the class and precision of the result."""
    left, total, cls = len(layout), len(layout) + len(layout.removed), type(model).__name__
    name = _name(model) or "an unnamed model"
    on_disk = Path(name).is_absolute() or Path(name).exists()
    if on_disk or name.startswith((".", "~")) or "\\" in name:
        name = Path(name.replace("\\", "/")).name  # the path on this machine is private
    if layout.removed:
        rows = "\n".join(
            f"| {a.block} | {a.layer} | {spans(h.index for h in a.removed)} | "
            f"{len(a.kept)} of {a.size} |"
            for a in layout.attentions
            if a.removed
        )
        text = f"Made from `{name}` {REMOVING} {total - left} attention heads (counted from 0):"
        text += f"\n\n| block | layer | removed | left |\n|---|---|---|---|\n{rows}"
    else:
        text = f"Saved with deadhead from `{name}`: no attention head was removed."
    precision = str(getattr(model, "dtype", "")).removeprefix("torch.")
    return (
        f"# {cls} with {left} of {total} heads\n\n{text}\n\n"
        f"It is a {cls} with weights in {precision}."
    )


def _neurons(layout: HeadLayout) -> str:
    """How many neurons were removed from which feed-forward layers."""
    changed = [f for f in layout.feed_forwards if f.removed]
    if not changed:
        return ""
    rows = "\n".join(f"| {f.block} | {f.layer} | {len(f.kept):,} of {f.size:,} |" for f in changed)
    count = sum(len(f.removed) for f in changed)
    return (
        f"{count:,} feed-forward neurons were removed:\n\n"
        f"| block | layer | neurons left |\n|---|---|---|\n{rows}"
    )


def _name(model: Any) -> str:
    return str(getattr(getattr(model, "config", None), "_name_or_path", "") or "")


def _front_matter(source: Path | None) -> dict[str, Any]:
    """That of the source's card, such as its licence and languages, without its results."""
    file = None if source is None else source / CARD
    if source is None or file is None or not file.is_file() or leaves(source, file):
        return {}
    text = file.read_text(encoding="utf-8", errors="replace")
    match = re.match(r"\ufeff?---\s*\n(.*?)\n---\s*\n", text, re.DOTALL)
    try:
        readable = match is not None and refused_in(match[1]) is None
        front = yaml.safe_load(match[1]) if match and readable else None
    except yaml.YAMLError:
        return {}
    fields = front if isinstance(front, dict) else {}
    return {str(name): value for name, value in fields.items() if name not in RESULTS}
