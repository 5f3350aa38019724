"""Save a pruned model as an ordinary Hugging Face folder, and load it back.

The removed heads stand in `config.json` under the key `deadhead`, so a folder that the Trainer or
`save_pretrained` wrote loads just as well as one written by `save`. Two forms exist: `compact` has the
small weights and needs `load`; `padded` has the shapes of the unpruned model with the removed heads
zeroed, and loads exactly anywhere.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn

from ..errors import FolderError, HeadError, UnsupportedModel, unknown_name
from ..layout import Head, HeadLayout, spans
from .biases import drop_bias, hold_biases, is_zero
from .classes import dtype_named, saved_class, task_class
from .discover import layout_of, located
from .named import refuse_foreign_shards, refuse_misnamed
from .sites import Site
from .surgery import BIASES, FORMAT, RECORD, cut, record, refuse_ragged, unfit

FORMS = ("compact", "padded")
FROM_WHERE = ("subfolder", "revision", "token", "cache_dir", "local_files_only")  # arguments that config and weights share
SAFE: dict[str, Any] = {"use_safetensors": True}  # for from_pretrained
# what reading a folder that somebody damaged may raise, in transformers' own code and below
FAULTS = (
    SafetensorError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError,
    StrictDataclassError,
)  # fmt: skip
LARGEST = 2**48  # number in a config.json
ANY = "*"  # transformers 4 wrote layers without a block: it pruned models of one block only
MADE = "with deadhead by removing"  # how a card of ours is told from one that somebody wrote


def save(model: Any, folder: str | Path, tokenizer: Any = None, *, form: str = "compact", max_shard_size: int | str = "50GB") -> Path:
    """Write the model, the list of its removed heads, its tokenizer if given, and a model card.

    Args:
        form: `compact` writes the small weights, for `deadhead.load`. `padded` writes full shapes with the
            removed heads zeroed, for plain `AutoModel.from_pretrained` where deadhead is not installed; use
            it for inference, since zeroed heads would grow back in training.
    """
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)
    from safetensors import SafetensorError

    if not hasattr(model, "save_pretrained"):
        raise UnsupportedModel(f"{type(model).__name__} is not a transformers model, so it cannot be saved as one.")
    state = unfit(model)
    if state is not None:
        raise state
    found = located(model)
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise FolderError(f"{target} is a file.", "name a folder")
    config = model.config
    # written beside and moved over file by file: a folder that is being replaced is never half of each
    try:
        target.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target))
    except OSError as problem:
        raise FolderError(f"{target} cannot be written: {problem.strerror}.", "name a folder you may write to") from problem
    try:
        model.config = copy.deepcopy(config)  # saving writes into it, and the user's own may be shared
        setattr(model.config, RECORD, {**record(found), "form": form})
        weights = _padded(model, found) if form == "padded" else None
        # some families fuse projections on disk, which only works out while they have their full shapes
        with quiet():
            model.save_pretrained(draft, state_dict=weights, max_shard_size=max_shard_size, save_original_format=form == "padded")
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
        if not (target / "README.md").exists() or MADE in (target / "README.md").read_text(encoding="utf-8", errors="replace"):
            (draft / "README.md").write_text(card(model, layout_of(found, {}), form), encoding="utf-8")
        _move_in(draft, target)
    except (OSError, SafetensorError) as problem:
        raise FolderError(f"{target} could not be written: {problem}.", "free some space, or name another folder") from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        model.config = config
    return target


def _move_in(draft: Path, target: Path) -> None:
    """Put the files of the draft in the place of those in the folder; should that fail, put the old ones back."""
    new = sorted(draft.iterdir())
    names = {f.name for f in new} | {f.name for f in target.glob("model*.safetensors*")}  # shards of another size would stay behind
    aside = draft / ".aside"
    aside.mkdir()
    try:
        for name in names:
            if (target / name).exists():
                os.replace(target / name, aside / name)
        for file in new:
            if file.is_file():
                file.chmod(0o666 & ~_umask())  # weights come out readable by their owner alone
            os.replace(file, target / file.name)
    except OSError:
        for file in new:
            if not file.exists():
                os.replace(target / file.name, file)
        for old in aside.iterdir():
            os.replace(old, target / old.name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back the log lines and progress bars of transformers, and those of the hub, which tells of every try."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, bars, hubs = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hubs)
        if bars:
            logging.enable_progress_bar()


def _padded(model: nn.Module, found: list[Site]) -> dict[str, torch.Tensor]:
    """The state of the model with every cut tensor back at its old shape, zeros where heads are gone."""
    state = dict(model.state_dict())
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}
    for site in found:
        for part in site.parts.values():
            rows = part.present(site.kept, site.keys_of(site.kept))
            for name, axis in part.tensors:
                small = getattr(part.module, name)
                shape = list(small.shape)
                shape[axis] = part.size
                full = small.detach().new_zeros(shape)
                state[names[id(small)]] = full.index_copy(axis, rows.to(small.device), small.detach())
    return state


def load(folder: str | Path, *, auto: Any = None, dtype: Any = "auto", **kwargs: Any) -> Any:
    """Load what `save` wrote: the right class, the saved precision, the removed heads removed.

    Also reads a plain Hugging Face folder or hub name, and folders that transformers 4 saved with
    `pruned_heads` in their config. Further arguments go to `from_pretrained`. Weights are read as safetensors only.

    auto: for another task than the saved one, such as `AutoModelForTokenClassification` (the class or its name); layers that
        the folder does not have, such as a classifier, begin anew, and fields of the config such as `id2label` can be given as well.
    dtype: precision of the weights, such as `torch.float32` or "float32"; by default that of the folder.
    """
    dtype = dtype_named(dtype)
    config = _config(folder, {name: kwargs[name] for name in FROM_WHERE if name in kwargs})
    removed, ours = _removed(config, folder), getattr(config, RECORD, None)
    biases = _layers_of(ours.get(BIASES), folder) if ours is not None else {}
    padded = ours is not None and ours.get("form") == "padded"
    cls = saved_class(config, folder) if auto is None else task_class(auto, config, folder)
    if auto is not None:
        config.update({name: kwargs.pop(name) for name in [*kwargs] if hasattr(config, name)})
    trimmed: Any = type(cls.__name__, (cls,), {"__init__": _trimming(cls, removed, folder)}) if removed and not padded else cls
    trimmed.__module__ = cls.__module__
    try:
        with quiet():  # what transformers would report is raised below
            model, report = trimmed.from_pretrained(
                folder, config=config, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True, **{**SAFE, **kwargs}
            )
    except FAULTS as problem:
        raise FolderError(
            f"the model in {folder} cannot be loaded: {_first_line(problem)}", unsafe(problem) or "save or download the folder again"
        ) from problem
    missing = sorted(report["missing_keys"])
    if auto is not None:
        missing = [key for key in missing if key.startswith(_body(model))]
    bad = [f"{key} is missing" for key in missing] + [f"{k[0]} has another shape" for k in report["mismatched_keys"]]
    if ours is not None and auto is None:  # what others saved may well hold more than the model reads; what we saved does not
        bad += [f"{key} has no place" for key in sorted(report["unexpected_keys"])]
    if bad:
        raise FolderError(
            f"{folder}: the weights do not fit the model{' and the heads that config.json says were removed' if removed else ''}: "
            f"{'; '.join(bad[:3])}{f' and {len(bad) - 3} more' if len(bad) > 3 else ''}.",
            "the folder is damaged or was edited by hand; save or download it again"
            if auto is None or missing
            else "name the model as it was before it learnt another task",
        )
    model.__class__ = cls
    if dtype == "auto" and config.dtype is not None and not getattr(cls, "_keep_in_fp32_modules", None):
        for parameter in model.parameters():  # transformers leaves bare ones (XLNet's) in float32
            parameter.data = parameter.data.to(config.dtype)
    if padded:
        _refuse_regrown(model, removed, folder)
        _trim(model, removed, folder)
    for site in located(model) if biases else ():
        if not site.kept and site.layer in biases.get(site.block, ()):
            if not is_zero(site):
                raise FolderError(
                    f"{folder}: the output bias of {site.block} layer {site.layer} was dropped, and is no longer zero.",
                    f"it was trained since; delete the key {BIASES!r} from config.json to keep it",
                )
            drop_bias(site)
    if removed:  # in memory there is one form only, so that `save_pretrained` writes what is there
        setattr(model.config, RECORD, record(located(model)))
    hold_biases(model)
    return model


def _body(model: nn.Module) -> tuple[str, ...]:
    """Where the weights of every task lie: the layers that have attention, whole, and the embeddings. A pooler or classifier may be new."""
    layers = {re.sub(r"(\.\d+)\..*", r"\1", site.path) for site in located(model)}
    embeddings = {name for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    return tuple(f"{path}." for path in sorted(layers | embeddings))


def unsafe(problem: BaseException) -> str | None:
    """What to do about weights that are there, but not as safetensors: a pickle can run code, so none is opened."""
    if "safetensors" not in str(problem) or isinstance(problem, SafetensorError):
        return None
    return (
        "only safetensors are read; download those, or make them of a pickle you trust: AutoModel.from_pretrained(OLD).save_pretrained(NEW)"
    )


def _refuse_regrown(model: nn.Module, removed: Mapping[str, Mapping[int, list[int]]], folder: str | Path) -> None:
    """A padded model that was trained as it is has its heads back, and cutting them would lose what they learnt."""
    for site in located(model):
        part = site.parts.get("o", site.parts.get("all"))
        name, axis = next(t for t in part.tensors if t[0] in ("weight", "o"))  # type: ignore[union-attr]
        for head in removed.get(site.block, {}).get(site.layer, []):
            if not 0 <= head < site.size:
                continue  # said in full by what comes next
            rows = next(iter(part.rows.values()))[head]  # type: ignore[union-attr]
            if getattr(part.module, name).index_select(axis, rows).any():  # type: ignore[union-attr]
                raise FolderError(
                    f"{folder}: head {Head(site.block, site.layer, head)} was removed by zeroing, and is no longer zero.",
                    f"it was trained since; delete the key {RECORD!r} from config.json to keep its heads",
                )


def _trim(model: Any, removed: Mapping[str, Mapping[int, list[int]]], folder: str | Path) -> None:
    """Cut the heads a folder lists out of a model that has just been built."""
    with torch.device("cpu"):  # from_pretrained builds on the meta device, where row numbers have no values
        found = located(model)
        layout = layout_of(found, {})
        named = [Head(b, n, i) for b, layers in removed.items() for n, indices in layers.items() for i in indices]
        try:
            gone = set(layout.check(h._replace(block=layout.blocks[0]) if h.block == ANY else h for h in named))
            left = {s.path: tuple(i for i in s.kept if Head(s.block, s.layer, i) not in gone) for s in found}
            for site in found:
                refuse_ragged(site, list(left[site.path]))
        except HeadError as problem:
            raise FolderError(f"{folder}: the removed heads do not fit the model: {problem.message}", "save the folder again") from problem
        for site in found:
            if left[site.path] != site.kept:
                cut(site, left[site.path])


def _trimming(cls: type, removed: Mapping[str, Mapping[int, list[int]]], folder: str | Path) -> Any:
    """A constructor that cuts the heads before the weights are read, so that each finds its shape."""

    def __init__(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)  # type: ignore[misc]
        _trim(self, removed, folder)

    return __init__


def _config(folder: str | Path, where: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    refuse_misnamed(folder, where)
    refuse_foreign_shards(Path(folder) / where.get("subfolder", ""))
    path = Path(folder) / where.get("subfolder", "") / "config.json"
    if Path(folder).is_dir() and not path.exists():
        raise FolderError(f"{folder} has no config.json.", "name a folder that holds a saved model")
    try:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not isinstance(stored, dict):
            raise ValueError("config.json holds no JSON object")
        if huge := [name for name, value in stored.items() if isinstance(value, int) and abs(value) > LARGEST]:
            raise ValueError(f"{huge[0]} in config.json is larger than {LARGEST:,}")  # transformers would build until memory ends
        with quiet():
            return AutoConfig.from_pretrained(folder, trust_remote_code=False, **where)  # unsaid, the user would be asked
    except FAULTS as problem:
        reason = _first_line(problem)
        raise FolderError(f"{folder} is no model that can be loaded: {reason}", "name a folder or a hub name that exists") from problem


def _removed(config: Any, folder: str | Path) -> dict[str, dict[int, list[int]]]:
    """The removed heads a config lists, ours or those of transformers 4."""
    ours, old = getattr(config, RECORD, None), getattr(config, "pruned_heads", None)
    if ours is not None:
        if not isinstance(ours, dict):
            raise FolderError(f"{folder}: the list of removed heads in config.json is damaged.", "save the folder again")
        version = ours.get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise FolderError(f"{folder} is of format {version!r}, this deadhead reads up to {FORMAT}.", "pip install --upgrade deadhead")
        return _heads_of(ours.get("removed"), folder)
    return _heads_of({ANY: old}, folder) if old else {}


def _heads_of(listed: Any, folder: str | Path) -> dict[str, dict[int, list[int]]]:
    try:
        return {block: {int(n): [int(i) for i in gone] for n, gone in layers.items()} for block, layers in listed.items()}
    except (TypeError, ValueError, AttributeError) as problem:
        raise FolderError(f"{folder}: the list of removed heads in config.json is damaged.", "save the folder again") from problem


def _layers_of(listed: Any, folder: str | Path) -> dict[str, set[int]]:
    try:
        return {str(block): {int(n) for n in layers} for block, layers in (listed or {}).items()}
    except (TypeError, ValueError, AttributeError) as problem:
        raise FolderError(f"{folder}: the list of dropped biases in config.json is damaged.", "save the folder again") from problem


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]


def card(model: nn.Module, layout: HeadLayout, form: str) -> str:
    """The model card: what was removed, and how to load what is left."""
    total = len(layout) + len(layout.removed)
    rows = "\n".join(
        f"| {a.block} | {a.layer} | {spans(h.index for h in a.removed)} | {len(a.kept)} of {a.size} |"
        for a in layout.attentions
        if a.removed
    )
    how = {
        "compact": '```python\nimport deadhead\nmodel = deadhead.load("PATH")\n```\n\nPlain `from_pretrained` refuses these shapes.',
        "padded": "Loads with plain `AutoModel.from_pretrained`: shapes are those of the unpruned model and the removed heads are "
        "zero. Meant for inference: in training, zeroed heads grow back. `deadhead.load` cuts them out again.",
    }[form]
    name = getattr(getattr(model, "config", None), "_name_or_path", "") or "an unnamed model"
    if Path(name).exists() or Path(name).is_absolute() or name.startswith((".", "~")) or "\\" in name:
        name = Path(name.replace("\\", "/")).name  # where it lay on this machine is nobody's business
    return (
        f"---\nlibrary_name: transformers\ntags:\n- deadhead\n- pruned\n---\n\n# {type(model).__name__} with {len(layout)} of {total} heads\n\n"
        f"Made from `{name}` {MADE} {total - len(layout)} attention heads (counted from 0):\n\n"
        f"| block | layer | removed | left |\n|---|---|---|---|\n{rows}\n\n## Load\n\n{how}\n"
    )
