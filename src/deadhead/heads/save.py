"""Save a pruned model as an ordinary Hugging Face folder.

The removed heads are listed in `config.json` under the key `deadhead`, so a folder that the
Trainer or `save_pretrained` wrote loads just as well as one written by `save`. There are two
forms: `compact` has the small weights and needs `load`; `padded` has the shapes of the unpruned
model with the removed heads zeroed, and loads exactly everywhere.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from deadhead.errors import FolderError, UnsupportedModel, unknown_name
from deadhead.files.model_folder import draft_in, swap
from deadhead.hub import quiet

from .discover import find_sites, layout_of
from .model_card import card, is_ours
from .model_files import CARD, copy_files, source_of
from .prune import RECORD, record, unfit
from .sites import Site

FORMS = ("compact", "padded")


def save(
    model: Any,
    folder: str | Path,
    tokenizer: Any = None,
    *,
    form: str = "compact",
    note: str = "",
    max_shard_size: int | str = "50GB",
) -> Path:
    """Write the model, the list of its removed heads, the tokenizer if given, and a model card.

    Other files of the folder that the model was loaded from are copied: licence, tokenizer (unless
    one is given), generation config, the modules of sentence-transformers; not its weights. The
    weights keep the precision they have in memory.

    Args:
        form: `compact` writes the small weights, for `deadhead.load`. `padded` writes full shapes
            with the removed heads zeroed, for plain `AutoModel.from_pretrained` where deadhead is
            not installed; use it for inference, since zeroed heads would grow back in training.
        note: a sentence for the model card, such as what the model was fine-tuned on.
    """
    _check(model, form)
    sites, config, source = find_sites(model), model.config, source_of(model)
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise FolderError(f"expected a folder, got the file {target}.", "name a folder")
    try:
        with draft_in(target) as draft:
            model.config = copy.deepcopy(config)  # saving changes it, and others may share it
            setattr(model.config, RECORD, {**record(sites), "form": form})
            with quiet():
                model.save_pretrained(
                    draft,
                    state_dict=_padded_weights(model, sites) if form == "padded" else None,
                    max_shard_size=max_shard_size,
                    # some families fuse projections on disk, which needs their full shapes
                    save_original_format=form == "padded",
                )
            if tokenizer is not None:
                tokenizer.save_pretrained(draft)
            if source is not None and not source.samefile(target):
                copy_files(source, draft, tokenizer=tokenizer is None)
            if _may_replace(target / CARD):
                model.config = config  # it names the class and the folder of the source
                text = card(model, layout_of(sites), form, source, note)
                (draft / CARD).write_text(text, encoding="utf-8")
            swap(draft, target)
    except (OSError, SafetensorError) as problem:
        raise FolderError(
            f"{target} could not be written: {problem}.", "free some space, or name another folder"
        ) from problem
    finally:
        model.config = config
    return target


def _check(model: Any, form: str) -> None:
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)
    if not hasattr(model, "save_pretrained"):
        raise UnsupportedModel(f"expected a transformers model, got {type(model).__name__}.")
    if (problem := unfit(model)) is not None:
        raise problem


def _may_replace(card_file: Path) -> bool:
    """Whether there is no model card yet, or one that deadhead wrote."""
    if not card_file.exists():
        return True
    return is_ours(card_file.read_text(encoding="utf-8", errors="replace"))


def _padded_weights(model: nn.Module, sites: list[Site]) -> dict[str, torch.Tensor]:
    """The state of the model with every tensor in its old shape, zeros for removed heads."""
    state = dict(model.state_dict())
    names = {id(p): name for name, p in model.named_parameters(remove_duplicate=False)}
    for site in sites:
        for part in site.parts.values():
            rows = part.present(site.kept, site.keys_of(site.kept))
            for name, axis in part.tensors:
                parameter = getattr(part.module, name)
                small = parameter.detach()
                shape = list(small.shape)
                shape[axis] = part.size
                full = small.new_zeros(shape)
                state[names[id(parameter)]] = full.index_copy(axis, rows.to(small.device), small)
    return state
