"""Save a pruned model as an ordinary Hugging Face folder.

The removed heads stand in `config.json` under the key `deadhead`, so a folder that the Trainer or
`save_pretrained` wrote loads just as well as one written by `save`. Two forms exist: `compact` has the
small weights and needs `load`; `padded` has the shapes of the unpruned model with the removed heads
zeroed, and loads exactly anywhere.
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
from .model_files import CARD, source_of, take_along
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
    """Write the model, the list of its removed heads, its tokenizer if given, and a model card.

    What else lies in the folder that the model was loaded from is taken along: licence, tokenizer (unless one is given),
    generation config, the modules of sentence-transformers; not its weights. The weights keep the precision they have in memory.

    Args:
        form: `compact` writes the small weights, for `deadhead.load`. `padded` writes full shapes with the
            removed heads zeroed, for plain `AutoModel.from_pretrained` where deadhead is not installed; use
            it for inference, since zeroed heads would grow back in training.
        note: a sentence for the model card, such as what the model was fine-tuned on.
    """
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)
    if not hasattr(model, "save_pretrained"):
        raise UnsupportedModel(
            f"{type(model).__name__} is not a transformers model, so it cannot be saved as one."
        )
    state = unfit(model)
    if state is not None:
        raise state
    found = find_sites(model)
    target, source = Path(folder), source_of(model)
    if target.exists() and not target.is_dir():
        raise FolderError(f"{target} is a file.", "name a folder")
    config = model.config
    try:
        with draft_in(target) as draft:
            model.config = copy.deepcopy(
                config
            )  # saving writes into it, and the user's own may be shared
            setattr(model.config, RECORD, {**record(found), "form": form})
            weights = _padded(model, found) if form == "padded" else None
            # some families fuse projections on disk, which only works out while they have their full shapes
            with quiet():
                model.save_pretrained(
                    draft,
                    state_dict=weights,
                    max_shard_size=max_shard_size,
                    save_original_format=form == "padded",
                )
            if tokenizer is not None:
                tokenizer.save_pretrained(draft)
            if source is not None and not source.samefile(target):
                take_along(source, draft, tokenizer=tokenizer is None)
            if not (target / CARD).exists() or is_ours(
                (target / CARD).read_text(encoding="utf-8", errors="replace")
            ):
                model.config = (
                    config  # which names the class and the place that the model was loaded from
                )
                (draft / CARD).write_text(
                    card(model, layout_of(found, {}), form, source, note), encoding="utf-8"
                )
            swap(draft, target)
    except (OSError, SafetensorError) as problem:
        raise FolderError(
            f"{target} could not be written: {problem}.", "free some space, or name another folder"
        ) from problem
    finally:
        model.config = config
    return target


def _padded(model: nn.Module, found: list[Site]) -> dict[str, torch.Tensor]:
    """The state of the model with every cut tensor back at its old shape, zeros where heads are gone."""
    state = dict(model.state_dict())
    names = {
        id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    for site in found:
        for part in site.parts.values():
            rows = part.present(site.kept, site.keys_of(site.kept))
            for name, axis in part.tensors:
                small = getattr(part.module, name)
                shape = list(small.shape)
                shape[axis] = part.size
                full = small.detach().new_zeros(shape)
                state[names[id(small)]] = full.index_copy(
                    axis, rows.to(small.device), small.detach()
                )
    return state
