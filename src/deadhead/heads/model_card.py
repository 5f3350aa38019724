"""The model card of a saved model: what was removed and from what, how to load it, and then the card of the model it was made from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from torch import nn

from deadhead.hub import split
from deadhead.layout import HeadLayout, spans

from .model_files import CARD, taken_along
from .prune import RECORD

MADE = "with deadhead by removing"  # how cards of ours begin that have no mark
MARK = "<!-- made by deadhead -->"
ORIGINAL = "## The card of the model it was made from"
NOT_ITS_OWN = ("model-index",)  # of the front matter: results of the model as it was
HOW = {
    "compact": '```python\nimport deadhead\nmodel = deadhead.load("PATH")\n```\n\nPlain `from_pretrained` refuses these shapes.',
    "padded": "Loads with plain `AutoModel.from_pretrained`: shapes are those of the unpruned model and the removed heads are "
    "zero. Meant for inference: in training, zeroed heads grow back. `deadhead.load` cuts them out again.",
}
WHOLE = "Loads with plain `from_pretrained` of transformers, and with `deadhead.load`."
LICENCE = re.compile(r"^(licen[sc]e|copying|notice)", re.IGNORECASE)


def is_ours(text: str) -> bool:
    """Whether a card was written by deadhead, so that it may be written anew."""
    return MARK in text or MADE in text


def card(
    model: nn.Module, layout: HeadLayout, form: str, source: Path | None = None, note: str = ""
) -> str:
    """The model card of this model, which came from this folder. `note`: what else happened to it."""
    about, original = _card_of(source)
    load = HOW[form] if layout.removed else WHOLE
    parts = (
        _what(model, layout, source),
        note,
        _kept(source, about),
        f"## Load\n\n{load}",
        original,
    )
    text = "\n\n".join(part for part in parts if part)
    tags = [
        *dict.fromkeys(
            [*_list(about.get("tags")), "deadhead", *(["pruned"] if layout.removed else [])]
        )
    ]
    front = {"library_name": "transformers", **about, "tags": tags}
    if (name := _name(model)) and not Path(name).is_absolute() and "/" in name:
        front["base_model"] = split(name)[0]
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n{MARK}\n\n{text}\n"


def _what(model: Any, layout: HeadLayout, source: Path | None) -> str:
    """What was done to which model."""
    left, total, cls = len(layout), len(layout) + len(layout.removed), type(model).__name__
    name = _name(model) or "an unnamed model"
    if (
        Path(name).is_absolute()
        or Path(name).exists()
        or name.startswith((".", "~"))
        or "\\" in name
    ):
        name = Path(
            name.replace("\\", "/")
        ).name  # where it lay on this machine is nobody's business
    rows = "\n".join(
        f"| {a.block} | {a.layer} | {spans(h.index for h in a.removed)} | {len(a.kept)} of {a.size} |"
        for a in layout.attentions
        if a.removed
    )
    made = (
        f"Made from `{name}` {MADE} {total - left} attention heads (counted from 0):"
        if rows
        else f"Saved with deadhead from `{name}`: no attention head was removed."
    )
    table = f"\n\n| block | layer | removed | left |\n|---|---|---|---|\n{rows}" if rows else ""
    before = _gone_before(source)
    table += f"\n\n{before} of these were gone from `{name}` already." if before and rows else ""
    saved_as = [*(getattr(model.config, "architectures", None) or [])]
    other = f" `{name}` was saved as {saved_as[0]}." if saved_as and saved_as != [cls] else ""
    precision = str(getattr(model, "dtype", "")).removeprefix("torch.")
    return f"# {cls} with {left} of {total} heads\n\n{made}{table}\n\nIt is a {cls} with weights in {precision}.{other}"


def _gone_before(source: Path | None) -> int:
    """Heads that the source had lost already."""
    try:
        removed = (
            json.loads((source / "config.json").read_text(encoding="utf-8"))[RECORD]["removed"]
            if source
            else {}
        )
        return sum(len(heads) for layers in removed.values() for heads in layers.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0  # not written by deadhead


def _name(model: Any) -> str:
    return str(getattr(getattr(model, "config", None), "_name_or_path", "") or "")


def _kept(source: Path | None, about: dict[str, Any]) -> str:
    """What came along from the source."""
    if source is None:
        return ""
    files = [str(file) for file in taken_along(source, tokenizer=True) if (source / file).is_file()]
    licences = [file for file in files if LICENCE.match(file)]
    kept = [
        f"Its licence ({about['license']}) applies to this model too." if "license" in about else ""
    ]
    kept += [f"The licence is in {', '.join(licences)}." if licences else ""]
    kept += ["The modules of sentence-transformers were kept." if "modules.json" in files else ""]
    return " ".join(line for line in kept if line)


def _card_of(source: Path | None) -> tuple[dict[str, Any], str]:
    """The front matter of the source's card and, under a heading that says so, its text; of a card of ours, what it has of these."""
    file = None if source is None else source / CARD
    if file is None or not file.is_file():
        return {}, ""
    text = file.read_text(encoding="utf-8", errors="replace")
    about, body = _front(text)
    if is_ours(text):
        _, heading, body = body.partition(ORIGINAL)
        return about, f"{heading}{body}".strip()
    warned = "What follows was written about that model. Results in it are not those of this one."
    return about, f"{ORIGINAL}\n\n{warned}\n\n{body.strip()}" if body.strip() else ""


def _front(text: str) -> tuple[dict[str, Any], str]:
    match = re.match(r"\ufeff?---\s*\n(.*?)\n---\s*\n", text, re.DOTALL)
    if match is None:
        return {}, text
    try:
        about = yaml.safe_load(match[1])
    except yaml.YAMLError:
        return {}, text
    if not isinstance(about, dict):
        return {}, text
    return {str(k): v for k, v in about.items() if k not in NOT_ITS_OWN}, text[match.end() :]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []
