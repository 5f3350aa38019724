"""Trim the vocabulary of a saved model to the texts of files."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead.display.progress import stage
from deadhead.embedding.embedder import read_embedder, read_prompts
from deadhead.files.hub import quiet, source
from deadhead.heads.load import load, skeleton
from deadhead.heads.model_files import fetch, folder_of, stored_dtype
from deadhead.heads.save import check_form, save
from deadhead.tasks.encoding.plain_text import read_text, read_texts, text_files
from deadhead.training.models import fitting_tokenizer
from deadhead.vocabulary import Trimmed
from deadhead.vocabulary.trim import plan_trim

# the words around line breaks, which some tokenizers put into one token with a full stop
BREAK = re.compile(r"\S*\s*\n\s*\S*")


@dataclass(frozen=True, kw_only=True)
class TrimmedSaved:
    """The result of `trim_saved`, for people and for JSON."""

    trimmed: Trimmed
    parameters: tuple[int, int]  # before, after
    megabytes: tuple[float, float]  # weights before and after
    bytes: int  # size of the weight files
    dtype: str

    def to_dict(self) -> dict[str, Any]:
        facts = {**vars(self), **self.trimmed.to_dict()}
        return {name: value for name, value in facts.items() if name != "trimmed"}


def plan_for_files(name: str, files: Iterable[Path], **loading: Any) -> Trimmed:
    """Choose the tokens that the texts of these files need, before the weights are read.

    loading: arguments of `skeleton`.
    """
    files = text_files(files)
    texts = [part for file in files for parts in read_texts(file) for part in parts]
    always = {match for file in files for match in BREAK.findall(read_text(file))}
    if (folder := folder_of(name)) is not None and (embedder := read_embedder(folder)) is not None:
        always.update(read_prompts(folder).values())
        if embedder.lower_case:
            texts, always = [text.lower() for text in texts], {text.lower() for text in always}
    bare = skeleton(name, **loading)
    _read_generation_config(bare, name)
    stage("choosing the tokens")
    return plan_trim(bare, fitting_tokenizer(bare, name), texts, always=always)


def _read_generation_config(bare: Any, name: str) -> None:
    """Give a skeleton the generation config that `load` would give the model."""
    from transformers import GenerationConfig

    if not bare.can_generate():
        return
    where = source(name)
    folder = where.pop("pretrained_model_name_or_path")
    with quiet():
        try:
            bare.generation_config = GenerationConfig.from_pretrained(folder, **where)
        except OSError:  # no such file: as transformers does, read the fields of config.json
            bare.generation_config = GenerationConfig.from_pretrained(
                folder, "config.json", _from_model_config=True, **where
            )


def trim_saved(
    name: str,
    out: Path,
    files: Sequence[Path],
    *,
    auto: str | None = None,
    dtype: str | None = None,
    form: str = "compact",
) -> TrimmedSaved:
    """Load a model, trim its vocabulary to the texts of these files, and save it to `out`.

    dtype: precision to write; by default that of the stored weights.
    """
    check_form(form)
    trimmed = plan_for_files(name, files, auto=auto, dtype=dtype)
    stored = stored_dtype(name) if dtype in (None, "auto") else dtype
    model = load(name, auto=auto, dtype="auto" if stored is None else stored)
    parameters, megabytes = _sizes(model)
    trimmed.apply(model)
    fetch(name)
    save(model, out, trimmed.tokenizer, form=form, note=note(trimmed))
    parameters_left, megabytes_left = _sizes(model)
    return TrimmedSaved(
        trimmed=trimmed,
        parameters=(parameters, parameters_left),
        megabytes=(megabytes, megabytes_left),
        bytes=sum(file.stat().st_size for file in out.glob("*.safetensors")),
        dtype=str(model.dtype).removeprefix("torch."),
    )


def note(trimmed: Trimmed) -> str:
    """A sentence for the model card."""
    whole, small = trimmed.tokens
    return f"Its vocabulary was trimmed with deadhead: {small:,} of {whole:,} tokens left."


def _sizes(model: Any) -> tuple[int, float]:
    """The parameters of a model, and their megabytes."""
    weights = [*model.parameters()]
    megabytes = sum(w.numel() * w.element_size() for w in weights) / 1e6
    return sum(w.numel() for w in weights), round(megabytes, 3)
