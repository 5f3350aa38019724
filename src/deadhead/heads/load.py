"""Load a saved model, whole or pruned: the class that fits, the precision of its folder, the removed heads removed."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn

from deadhead.errors import FolderError, HeadError, Notice
from deadhead.files.model_folder import finish_save
from deadhead.hub import check_name, quiet, split
from deadhead.layout import Head

from .discover import find_sites, layout_of
from .model_class import AS_SAVED, bare_class, dtype_named, saved_class, task_class
from .model_files import check_shards
from .output_bias import drop_bias, hold_biases, is_zero
from .prune import BIASES, FORMAT, RECORD, cut, record, refuse_ragged

FROM_WHERE = (
    "subfolder",
    "revision",
    "token",
    "cache_dir",
    "local_files_only",
)  # arguments that config and weights share
SAFE: dict[str, Any] = {"use_safetensors": True}  # for from_pretrained
# what reading a folder that somebody damaged may raise, in transformers' own code and below
FAULTS = (
    SafetensorError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError,
    StrictDataclassError,
)  # fmt: skip
LARGEST = 2**48  # number in a config.json
ANY = "*"  # transformers 4 wrote layers without a block: it pruned models of one block only

Removed = dict[str, dict[int, list[int]]]  # block -> layer -> heads


@dataclass(frozen=True)
class Saved:
    """What a config says about the heads of the model that was saved with it."""

    folder: str | Path
    removed: Removed
    biases: dict[str, set[int]]  # output biases that left with the last head: block -> layers
    ours: bool  # written by deadhead
    padded: bool  # with the shapes of the whole model


def load(folder: str | Path, *, auto: Any = None, dtype: Any = AS_SAVED, **kwargs: Any) -> Any:
    """Load what `save` wrote: the right class, the saved precision, the removed heads removed.

    Also reads a plain Hugging Face folder or hub name (`name@revision` for one commit, branch or tag), and folders that transformers 4 saved with
    `pruned_heads` in their config. Further arguments go to `from_pretrained`. Weights are read as safetensors only.
    Where a config names a class with a task layer and the weights are those of the bare model, the bare model is loaded,
    with a `Notice` (a warning).

    auto: for another task than the saved one, such as `AutoModelForTokenClassification` (the class or its name); layers that
        the folder does not have, such as a classifier, begin anew, and fields of the config such as `id2label` can be given as well.
    dtype: precision of the weights, such as `torch.float32` or "float32"; by default what config.json says, else that of the weights.
    """
    folder, revision = split(folder)
    if revision is not None:
        kwargs = {"revision": revision, **kwargs}
    where = {name: kwargs[name] for name in FROM_WHERE if name in kwargs}
    dtype = dtype_named(dtype)
    finish_save(Path(folder) / kwargs.get("subfolder", ""))
    config = _config(folder, where)
    saved = _saved(config, folder)
    cls = saved_class(config, folder) if auto is None else task_class(auto, config, folder)
    if auto is not None:
        config.update({name: kwargs.pop(name) for name in [*kwargs] if hasattr(config, name)})
    model, report = _read(cls, config, saved, dtype, kwargs)
    bare = bare_class(model, report) if auto is None and not saved.ours else None
    if bare is not None:
        model, report = _read(bare, config, saved, dtype, kwargs)
    _refuse_misfit(model, report, saved, task=auto is not None)
    if bare is not None:
        fits = f"config.json of {folder} names {cls.__name__}, but the weights are those of {bare.__name__}: loaded as that."
        warnings.warn(Notice(fits), stacklevel=2)
    if "revision" in where and not Path(folder).is_dir():
        model.config._name_or_path = f"{folder}@{where['revision']}"  # for `save`, which takes along what lies there, and names it
    return _settled(model, saved, dtype, folder)


def _read(
    cls: Any, config: Any, saved: Saved, dtype: Any, kwargs: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The model as this class, and what transformers reports about its weights."""
    cuts = bool(saved.removed) and not saved.padded
    built: Any = type(cls.__name__, (cls,), {"__init__": _trimming(cls, saved)}) if cuts else cls
    built.__module__ = cls.__module__
    try:
        with quiet():  # what transformers would report is raised by `_refuse_misfit`
            model, report = built.from_pretrained(
                saved.folder,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **{**SAFE, **kwargs},
            )
    except FAULTS as problem:
        raise FolderError(
            f"the model in {saved.folder} cannot be loaded: {_first_line(problem)}",
            unsafe(problem) or "save or download the folder again",
        ) from problem
    model.__class__ = cls
    return model, report


def _refuse_misfit(model: Any, report: Mapping[str, Any], saved: Saved, *, task: bool) -> None:
    """An error where weights are missing, have another shape or, in a folder of ours, have no place."""
    missing = sorted(report["missing_keys"])
    if task:
        missing = [key for key in missing if key.startswith(_body(model))]
    bad = [f"{key} is missing" for key in missing] + [
        f"{k[0]} has another shape" for k in report["mismatched_keys"]
    ]
    if (
        saved.ours and not task
    ):  # what others saved may well hold more than the model reads; what we saved does not
        bad += [f"{key} has no place" for key in sorted(report["unexpected_keys"])]
    if not bad:
        return
    raise FolderError(
        f"{saved.folder}: the weights do not fit the model{' and the heads that config.json says were removed' if saved.removed else ''}: "
        f"{'; '.join(bad[:3])}{f' and {len(bad) - 3} more' if len(bad) > 3 else ''}.",
        "name the model as it was before it learnt another task"
        if task and not missing
        else "the folder is damaged or was edited by hand; save or download it again",
    )


def _settled(model: Any, saved: Saved, dtype: Any, folder: str | Path) -> Any:
    """The model as it is kept in memory: one precision, one form, a config that says what is there."""
    precision = model.config.dtype if dtype == AS_SAVED else dtype
    if precision is not None and not getattr(type(model), "_keep_in_fp32_modules", None):
        for parameter in model.parameters():  # transformers leaves bare ones (XLNet's) in float32
            parameter.data = parameter.data.to(precision)
    if saved.padded:
        _refuse_regrown(model, saved)
        _trim(model, saved)
    _drop_biases(model, saved)
    if (
        saved.removed
    ):  # in memory there is one form only, so that `save_pretrained` writes what is there
        setattr(model.config, RECORD, record(find_sites(model)))
    if Path(folder).is_dir():
        model.config._name_or_path = str(
            Path(folder).resolve()
        )  # where `save` finds what else lies there, also from another directory
    hold_biases(model)
    return model


def _drop_biases(model: Any, saved: Saved) -> None:
    """Drop the output biases that the config lists, unless they were trained since."""
    for site in find_sites(model) if saved.biases else ():
        if not site.kept and site.layer in saved.biases.get(site.block, ()):
            if not is_zero(site):
                raise FolderError(
                    f"{saved.folder}: the output bias of {site.block} layer {site.layer} was dropped, and is no longer zero.",
                    f"it was trained since; delete the key {BIASES!r} from config.json to keep it",
                )
            drop_bias(site)


def _body(model: nn.Module) -> tuple[str, ...]:
    """Where the weights of every task lie: the layers that have attention, whole, and the embeddings. A pooler or classifier may be new."""
    layers = {re.sub(r"(\.\d+)\..*", r"\1", site.path) for site in find_sites(model)}
    embeddings = {
        name for name, module in model.named_modules() if isinstance(module, nn.Embedding)
    }
    return tuple(f"{path}." for path in sorted(layers | embeddings))


def unsafe(problem: BaseException) -> str | None:
    """What to do about weights that are there, but not as safetensors: a pickle can run code, so none is opened."""
    if "safetensors" not in str(problem) or isinstance(problem, SafetensorError):
        return None
    return "only safetensors are read; download those, or make them of a pickle you trust: AutoModel.from_pretrained(OLD).save_pretrained(NEW)"


def _refuse_regrown(model: nn.Module, saved: Saved) -> None:
    """A padded model that was trained as it is has its heads back, and cutting them would lose what they learnt."""
    for site in find_sites(model):
        part = site.parts.get("o", site.parts.get("all"))
        name, axis = next(t for t in part.tensors if t[0] in ("weight", "o"))  # type: ignore[union-attr]
        for head in saved.removed.get(site.block, {}).get(site.layer, []):
            if not 0 <= head < site.size:
                continue  # said in full by what comes next
            rows = next(iter(part.rows.values()))[head]  # type: ignore[union-attr]
            if getattr(part.module, name).index_select(axis, rows).any():  # type: ignore[union-attr]
                raise FolderError(
                    f"{saved.folder}: head {Head(site.block, site.layer, head)} was removed by zeroing, and is no longer zero.",
                    f"it was trained since; delete the key {RECORD!r} from config.json to keep its heads",
                )


def _trim(model: Any, saved: Saved) -> None:
    """Cut the heads a folder lists out of a model that has just been built."""
    with torch.device(
        "cpu"
    ):  # from_pretrained builds on the meta device, where row numbers have no values
        found = find_sites(model)
        layout = layout_of(found, {})
        named = [
            Head(b, n, i)
            for b, layers in saved.removed.items()
            for n, indices in layers.items()
            for i in indices
        ]
        try:
            gone = set(
                layout.check(
                    h._replace(block=layout.blocks[0]) if h.block == ANY else h for h in named
                )
            )
            left = {
                s.path: tuple(i for i in s.kept if Head(s.block, s.layer, i) not in gone)
                for s in found
            }
            for site in found:
                refuse_ragged(site, list(left[site.path]))
        except HeadError as problem:
            raise FolderError(
                f"{saved.folder}: the removed heads do not fit the model: {problem.message}",
                "save the folder again",
            ) from problem
        for site in found:
            if left[site.path] != site.kept:
                cut(site, left[site.path])


def _trimming(cls: type, saved: Saved) -> Any:
    """A constructor that cuts the heads before the weights are read, so that each finds its shape."""

    def __init__(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)  # type: ignore[misc]
        _trim(self, saved)

    return __init__


def _config(folder: str | Path, where: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    check_name(folder, where)
    check_shards(Path(folder) / where.get("subfolder", ""))
    path = Path(folder) / where.get("subfolder", "") / "config.json"
    if Path(folder).is_dir() and not path.exists():
        raise FolderError(f"{folder} has no config.json.", "name a folder that holds a saved model")
    try:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not isinstance(stored, dict):
            raise ValueError("config.json holds no JSON object")
        if huge := [
            name
            for name, value in stored.items()
            if isinstance(value, int) and abs(value) > LARGEST
        ]:
            raise ValueError(
                f"{huge[0]} in config.json is larger than {LARGEST:,}"
            )  # transformers would build until memory ends
        with quiet():
            return AutoConfig.from_pretrained(
                folder, trust_remote_code=False, **where
            )  # unsaid, the user would be asked
    except FAULTS as problem:
        reason = _first_line(problem)
        raise FolderError(
            f"{folder} is no model that can be loaded: {reason}",
            "name a folder or a hub name that exists",
        ) from problem


def _saved(config: Any, folder: str | Path) -> Saved:
    """The removed heads a config lists, ours or those of transformers 4."""
    ours, old = getattr(config, RECORD, None), getattr(config, "pruned_heads", None)
    if ours is None:
        return Saved(
            folder, _heads_of({ANY: old}, folder) if old else {}, {}, ours=False, padded=False
        )
    if not isinstance(ours, dict):
        raise FolderError(
            f"{folder}: the list of removed heads in config.json is damaged.",
            "save the folder again",
        )
    version = ours.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise FolderError(
            f"{folder} is of format {version!r}, this deadhead reads up to {FORMAT}.",
            "pip install --upgrade deadhead",
        )
    removed, biases = _heads_of(ours.get("removed"), folder), _layers_of(ours.get(BIASES), folder)
    return Saved(folder, removed, biases, ours=True, padded=ours.get("form") == "padded")


def _heads_of(listed: Any, folder: str | Path) -> Removed:
    try:
        return {
            block: {int(n): [int(i) for i in gone] for n, gone in layers.items()}
            for block, layers in listed.items()
        }
    except (TypeError, ValueError, AttributeError) as problem:
        raise FolderError(
            f"{folder}: the list of removed heads in config.json is damaged.",
            "save the folder again",
        ) from problem


def _layers_of(listed: Any, folder: str | Path) -> dict[str, set[int]]:
    try:
        return {str(block): {int(n) for n in layers} for block, layers in (listed or {}).items()}
    except (TypeError, ValueError, AttributeError) as problem:
        raise FolderError(
            f"{folder}: the list of dropped biases in config.json is damaged.",
            "save the folder again",
        ) from problem


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]
