"""Save a pruned model as an ordinary Hugging Face folder.

The removed heads are listed in `config.json` under the key `deadhead`, so a folder that the
Trainer or `save_pretrained` wrote loads just as well as one written by `save`. There are two
forms: `compact` has the small weights and needs `load`; `padded` has the shapes of the unpruned
model with the removed heads zeroed, and loads exactly everywhere.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError, UnsupportedModel, unknown_name
from deadhead.files.hub import quiet
from deadhead.files.model_folder import draft_in, swap
from deadhead.files.writing import writing

from .discover import find_every_site
from .loading import Loading, loading_of
from .model_card import card, is_ours
from .model_files import CARD, copy_files, source_of
from .padded import padded_form
from .prune import RECORD, allow_plain_loading, check_changeable, record
from .saved_config import stop_plain_loading
from .unpacked import drop_mark

FORMS = ("compact", "padded")
EMPTY = {"format", "removed", "form"}  # the keys of a record that lists nothing


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
    check_form(form)
    _check(model)
    drop_mark(model)
    sites, source, target = find_every_site(model), source_of(model), Path(folder)
    if target.exists() and not target.is_dir():
        raise FolderError(f"expected a folder, got the file {target}.", "name a folder")
    padded = padded_form(model, sites) if form == "padded" else None
    loading = loading_of(model, sites) if padded is None else Loading(padded.config, {}, None)
    extra = {"form": form, **loading.record}
    with writing(target), draft_in(target) as draft:
        weights = None if padded is None else padded.weights
        with _config(model, loading.config, {**record(sites), **extra}), quiet():
            model.save_pretrained(
                draft,
                state_dict=weights,
                max_shard_size=max_shard_size,
                # some families fuse projections on disk, which needs their full shapes
                save_original_format=padded is not None,
            )
            if padded is None:
                stop_plain_loading(draft, model.config)
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
        if source is not None and not source.samefile(target):
            copy_files(source, draft, tokenizer=tokenizer is None)
        loading.write_loader(draft)
        if _may_replace(target / CARD):
            text = card(model, sites, form if padded else loading.how, source, note)
            (draft / CARD).write_text(text, encoding="utf-8")
        swap(draft, target)
    return target


@contextmanager
def _config(model: Any, config: Any, listed: dict[str, Any]) -> Iterator[None]:
    """Give the model a config with the list of removed heads while it is saved."""
    own = model.config
    try:
        model.config = copy.deepcopy(config)  # saving changes the config, and others may share it
        if listed.keys() <= EMPTY and not listed["removed"]:
            vars(model.config).pop(RECORD, None)  # an ordinary model
        else:
            setattr(model.config, RECORD, listed)
        if listed["form"] == "padded":
            allow_plain_loading(model.config)
        yield
    finally:
        model.config = own


def check_form(form: str) -> None:
    """Raise an error unless `save` can write this form."""
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)


def _check(model: Any) -> None:
    if not hasattr(model, "save_pretrained"):
        raise UnsupportedModel(f"expected a transformers model, got {type(model).__name__}.")
    check_changeable(model)


def _may_replace(card_file: Path) -> bool:
    """Whether there is no model card yet, or one that deadhead wrote."""
    if not card_file.exists():
        return True
    return is_ours(card_file.read_text(encoding="utf-8", errors="replace"))
