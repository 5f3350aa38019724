"""Prune a saved model into another folder, in its own precision and with its other files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead.embedding import embedder_of
from deadhead.heads.discover import discover
from deadhead.heads.load import load, skeleton
from deadhead.heads.model_files import fetch, kept_files, source_of, stored_dtype
from deadhead.heads.prune import prune
from deadhead.heads.save import check_form, save
from deadhead.heads.summary import cache_bytes
from deadhead.layout import Groups, Head, HeadLayout


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What was removed, and what was written."""

    removed: tuple[Head, ...]
    left: int  # heads
    parameters: tuple[int, int]  # before, after
    group: int  # the most heads that share a key/value head in the source; 1: none do
    cache: tuple[int, int]  # bytes of the key/value cache for a token, before and after
    dtype: str
    bytes: int  # size of the weight files
    kept_files: list[str]  # copied from the source, besides weights and model card


def prune_saved(
    name: str,
    out: Path,
    choose: Callable[[HeadLayout], Iterable[Head | str]],
    *,
    auto: str | None = None,
    dtype: str | None = None,
    drop_output_bias: bool = False,
    form: str = "compact",
    groups: Groups = "whole",
) -> Pruned:
    """Load a model, remove the heads that `choose` picks from its layout, and save it to `out`.

    dtype: precision to write; by default that of the stored weights.
    groups: as in `prune`; with `expand`, `choose` gets a layout of single heads.
    """
    check_form(form)
    # the choice needs the config alone, so a mistake in it costs no time to read weights
    bare = skeleton(name, auto=auto, dtype=dtype)
    embedder_of(bare)  # or raise an error: the modules of the folder are copied
    layout = discover(bare)
    removed = layout.check(choose(layout if groups == "whole" else layout.in_single_heads()))
    # the config may name a precision twice as large as that of the stored weights
    stored = stored_dtype(name) if dtype in (None, "auto") else dtype
    model = load(name, auto=auto, dtype="auto" if stored is None else stored)
    (parameters, cache), source = _sizes(model), source_of(model)
    prune(model, removed, drop_output_bias=drop_output_bias, groups=groups)
    fetch(name)
    save(model, out, form=form)
    parameters_left, cache_left = _sizes(model)
    files = () if source is None else kept_files(source, tokenizer=True)
    return Pruned(
        removed=removed,
        left=len(layout) - len(removed),
        parameters=(parameters, parameters_left),
        group=max(len(group) for a in layout.attentions for group in a.groups),
        cache=(cache, cache_left),
        dtype=str(model.dtype).removeprefix("torch."),
        bytes=sum(file.stat().st_size for file in out.glob("*.safetensors")),
        kept_files=[str(f) for f in files if source is not None and (source / f).is_file()],
    )


def _sizes(model: Any) -> tuple[int, int]:
    """The parameters of a model, and the bytes of its key/value cache for a token."""
    return sum(p.numel() for p in model.parameters()), cache_bytes(model)
