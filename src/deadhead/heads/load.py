"""Load a saved model, pruned or not: its class, its precision, and without its removed heads."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from deadhead.display.progress import stage
from deadhead.errors import FolderError, GroupError, HeadError, Notice, UnsupportedModel
from deadhead.files.hub import quiet, source
from deadhead.files.model_folder import finish_save
from deadhead.layout import SiteKey

from .cut import cut
from .discover import find_every_site, layout_of
from .load_pruned import parameter_names, tie_added
from .model_class import AS_SAVED, bare_class, dtype_named, saved_class, task_class
from .model_files import INDEX, check_hub_weights, stored_dtype
from .output_bias import add_bias, drop_bias, freeze_biases, is_zero, lacks_biases
from .prune import BIASES, RECORD, refuse_uneven_groups, set_record
from .saved_config import ANY_BLOCK, FAULTS, WEIGHTS, Saved, first_line, read_config, read_saved
from .site import Site

# arguments of from_pretrained for the config as well as the weights
FROM_WHERE = ("subfolder", "revision", "token", "cache_dir", "local_files_only")
Report = Mapping[str, Any]  # what transformers reports about the weights it read


def load(folder: str | Path, *, auto: Any = None, dtype: Any = AS_SAVED, **kwargs: Any) -> Any:
    """Load what `save` wrote: the right class, the saved precision, the removed heads removed.

    Also reads a plain Hugging Face folder or hub name (`name@revision` for one commit, branch or
    tag), and folders that transformers 4 saved with `pruned_heads` in their config. Further
    arguments go to `from_pretrained`. Weights are read as safetensors only. If a config names a
    class with a task layer and the weights are those of the bare model, the bare model is loaded,
    with a `Notice` (a warning).

    Args:
        auto: for another task than the saved one, such as `AutoModelForTokenClassification` (the
            class or its name). Layers that the folder does not have, such as a classifier, start
            from scratch, and fields of the config such as `id2label` can be given as well.
        dtype: precision of the weights, such as `torch.float32` or "float32"; by default what
            config.json says, else that of the weights.
    """
    return _load_with_report(folder, auto, dtype, kwargs)[0]


def load_complete(
    folder: str | Path, *, auto: Any = None, dtype: Any = AS_SAVED, **kwargs: Any
) -> Any:
    """`load`, but every weight must be in the folder: for files that nobody trains further.

    A pooler alone may be missing, with a `Notice`: the other outputs do not depend on it.
    """
    model, report = _load_with_report(folder, auto, dtype, kwargs)
    missing = sorted(report["missing_keys"])
    if not missing:
        return model
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    text = f"{folder} has no weights for {', '.join(missing[:3])}{more} of {type(model).__name__}"
    if not all("pooler" in key.split(".") for key in missing):
        raise FolderError(
            f"{text}, which would be random numbers.",
            "leave out --auto-class, or train the model as that class first",
        )
    warnings.warn(Notice(f"{text}: its pooled output is of random numbers."), stacklevel=3)
    return model


def _load_with_report(
    folder: str | Path, auto: Any, dtype: Any, kwargs: dict[str, Any]
) -> tuple[Any, Report]:
    """The model, and what transformers reports about its weights."""
    dtype = dtype_named(dtype)
    kwargs = {**source(folder), **kwargs}
    folder = kwargs.pop("pretrained_model_name_or_path")
    where = {name: kwargs[name] for name in FROM_WHERE if name in kwargs}
    finish_save(Path(folder) / kwargs.get("subfolder", ""))
    config = read_config(folder, where)
    if not Path(folder).is_dir():
        _check_hub(folder, config, where, kwargs.get("variant"))
    saved = read_saved(config, folder)
    stage(f"loading {folder}")
    cut_sites: list[Site] = []  # the layers, if the model is cut while it is built
    read = partial(
        _read, config=config, saved=saved, dtype=dtype, kwargs=kwargs, cut_sites=cut_sites
    )
    if auto is None:
        model, report = _read_saved_class(config, saved, read)
    else:
        cls = task_class(auto, config, folder)
        config.update({name: kwargs.pop(name) for name in [*kwargs] if hasattr(config, name)})
        model, report = read(cls)
    sites = cache(lambda: cut_sites or find_every_site(model, *saved.needed))
    _check_weights(model, report, saved, sites if auto is not None else None)
    _set_precision(model, dtype)
    if saved.is_pruned:
        _remove_saved_heads(model, saved, sites())
    if lacks_biases(model):
        freeze_biases(sites())
    _set_source(model, folder, where)
    return model, report


def _check_hub(name: str | Path, config: Any, where: dict[str, Any], variant: str | None) -> None:
    """Check the weights of a hub model. With the commit of the config, few requests are sent."""
    revision = getattr(config, "_commit_hash", None) or where.get("revision")
    own = INDEX if variant is None else INDEX.replace(".json", f".{variant}.json")
    indexes = {own, getattr(config, WEIGHTS, None) or own}
    check_hub_weights(name, indexes, **{**where, "revision": revision})


def _read_saved_class(
    config: Any, saved: Saved, read: Callable[[Any], tuple[Any, Report]]
) -> tuple[Any, Report]:
    """The model as the class that its config names, or as the bare class that fits its weights."""
    cls = saved_class(config, saved.folder)
    model, report = read(cls)
    bare = None if saved.ours else bare_class(model, report)
    if bare is None:
        return model, report
    text = (
        f"config.json of {saved.folder} names {cls.__name__}, but the weights are those of "
        f"{bare.__name__}: loaded as that."
    )
    warnings.warn(Notice(text), stacklevel=4)
    return read(bare)


def _read(
    cls: Any,
    config: Any,
    saved: Saved,
    dtype: Any,
    kwargs: Mapping[str, Any],
    cut_sites: list[Site],
) -> tuple[Any, Report]:
    """The model as this class, and what transformers reports about its weights.

    cut_sites: gets the layers of a model that is cut while it is built.
    """
    if hasattr(cls, "load_speakers"):  # its from_pretrained calls this with spk_dict.pt
        raise UnsupportedModel(
            f"{cls.__name__} reads its voices from a pickle.", "load the part of it that reads text"
        )
    cuts_first = saved.is_pruned and not saved.padded
    kwargs = {**kwargs, "use_safetensors": True}  # whatever the caller says
    with _named(saved.folder), quiet():  # `_check_weights` raises what transformers would print
        reader = cutting_class(cls, saved, cut_sites) if cuts_first else cls
        model, report = reader.from_pretrained(
            saved.folder,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **kwargs,
        )
    model.__class__ = cls
    return model, report


@contextmanager
def _named(folder: str | Path) -> Iterator[None]:
    """Raise what transformers and torch say of a broken folder with the name of the folder."""
    try:
        yield
    except FAULTS as problem:
        raise FolderError(
            f"the model in {folder} cannot be loaded: {first_line(problem)}",
            hint_for_pickles(problem) or "save or download the folder again",
        ) from problem


def cutting_class(cls: Any, saved: Saved, cut_sites: list[Site]) -> Any:
    """A subclass that cuts its heads when it is built, so that the small weights fit it.

    cut_sites: gets its layers.
    """

    def __init__(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)
        cut_sites[:] = cut_saved_heads(self, saved)

    return type(cls.__name__, (cls,), {"__init__": __init__, "__module__": cls.__module__})


def cut_saved_heads(model: Any, saved: Saved, sites: list[Site] | None = None) -> list[Site]:
    """Cut the heads that a folder lists out of a model; gives its layers.

    sites: the layers of the model; by default they are searched for.
    """
    # from_pretrained builds on the meta device, where row numbers would have no values
    with torch.device("cpu"):
        if sites is None:
            _tie(model)
            sites = find_every_site(model, *saved.needed)
        before = parameter_names(model)
        kept = _saved_units(sites, saved)
        if saved.padded:
            _check_still_zero(sites, kept, saved)
        for site in sites:
            if kept[site.key] != site.kept:
                cut(site, kept[site.key], saved.shares.get(site.layer_key))
            if site.key in saved.filled:
                add_bias(site)
    tie_added(model, before)
    return sites


def _tie(model: Any) -> None:
    """Tie the weights now, since they show which layers are one: from_pretrained does it later."""
    for target, source_name in model.all_tied_weights_keys.items():
        path, _, name = target.rpartition(".")
        setattr(model.get_submodule(path), name, model.get_parameter_or_buffer(source_name))


def _saved_units(sites: list[Site], saved: Saved) -> dict[SiteKey, tuple[int, ...]]:
    """What each layer of a whole model keeps: kind, block and layer -> numbers."""
    layout = layout_of(sites)
    block = next(iter(layout.blocks), ANY_BLOCK)
    named = (h._replace(block=block) if h.block == ANY_BLOCK else h for h in saved.removed)
    try:
        kept = layout.without(named, saved.neurons).kept
        for site in sites:
            share = saved.shares.get(site.layer_key)
            if site.kind == "heads" and share is not None:
                _check_share(site, kept[site.key], share)
            else:
                refuse_uneven_groups(site, kept[site.key])
    except HeadError as problem:
        raise FolderError(
            f"{saved.folder}: the removed heads do not fit the model: {problem.message}",
            "save the folder again",
        ) from problem
    return kept


def _check_share(site: Site, kept: tuple[int, ...], share: int) -> None:
    """Raise an error if this number of heads cannot share each key/value head."""
    sizes = {len(group) for group in site.by_key(kept)}
    if share < 1 or site.keys in (1, site.size) or any(size % share for size in sizes):
        raise GroupError(
            f"{site.block} layer {site.layer} cannot have {share} heads for each key/value head."
        )


def _check_weights(
    model: Any, report: Report, saved: Saved, new_task: Callable[[], list[Site]] | None
) -> None:
    """Raise an error if weights are missing, have another shape or, in our folders, are unused.

    new_task: gives the layers of a model for another task. A classifier may be missing then, and
    other weights than those of the model are fine.
    """
    missing = sorted(report["missing_keys"])
    if new_task and missing:
        body = _body(model, new_task())
        missing = [key for key in missing if key.startswith(body)]
    problems = [f"{key} is missing" for key in missing]
    problems += [f"{key[0]} has another shape" for key in report["mismatched_keys"]]
    if saved.ours and not new_task:  # the folders of others may hold more than the model reads
        problems += [f"{key} has no place" for key in sorted(report["unexpected_keys"])]
    if not problems:
        return
    model_text = (
        "the model and its removed heads in config.json" if saved.is_pruned else "the model"
    )
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    hint = "the folder is damaged or was edited by hand; save or download it again"
    if new_task and not missing:
        hint = "name the model as it was before it learnt another task"
    raise FolderError(
        f"{saved.folder}: expected weights that fit {model_text}, got: "
        f"{'; '.join(problems[:3])}{more}.",
        hint,
    )


def _body(model: nn.Module, sites: list[Site]) -> tuple[str, ...]:
    """The prefixes of the weights that every task needs: layers with attention, and embeddings.

    A pooler or a classifier may be new.
    """
    layers = {re.sub(r"(\.\d+)\..*", r"\1", site.path) for site in sites}
    embeddings = {n for n, module in model.named_modules() if isinstance(module, nn.Embedding)}
    return tuple(f"{path}." for path in sorted(layers | embeddings))


def hint_for_pickles(problem: BaseException) -> str | None:
    """What to do about weights that are not safetensors: a pickle can run code, so none is read."""
    if "safetensors" not in str(problem) or isinstance(problem, SafetensorError):
        return None
    return (
        "only safetensors are read; download those, or convert a pickle you trust: "
        "AutoModel.from_pretrained(OLD).save_pretrained(NEW)"
    )


def _set_precision(model: Any, dtype: Any) -> None:
    """Convert bare parameters too (XLNet's), which transformers leaves in float32."""
    precision = model.config.dtype if dtype == AS_SAVED else dtype
    if precision is not None and not getattr(type(model), "_keep_in_fp32_modules", None):
        for parameter in model.parameters():
            parameter.data = parameter.data.to(precision)


def _remove_saved_heads(model: Any, saved: Saved, sites: list[Site]) -> None:
    """Finish removing heads and biases; the config then lists what is removed in memory."""
    if saved.padded:
        cut_saved_heads(model, saved, sites)
    for site in sites:
        is_listed = site.kind == "heads" and site.layer_key in saved.dropped
        if not site.kept and is_listed:
            if not is_zero(site):
                raise FolderError(
                    f"{saved.folder}: the output bias of {site.block} layer {site.layer} was "
                    "dropped, and is no longer zero.",
                    f"it was trained since; delete the key {BIASES!r} from config.json to keep it",
                )
            drop_bias(site)
    # one form only in memory, so that `save_pretrained` writes the truth
    set_record(model.config, sites)


def _check_still_zero(
    sites: list[Site], kept: Mapping[SiteKey, tuple[int, ...]], saved: Saved
) -> None:
    """Refuse a padded model whose zeroed units were trained: cutting them would lose that."""
    for site in sites:
        removed = sorted(set(site.kept).difference(kept[site.key]))
        if not removed:
            continue
        part = site.parts["all" if site.out is None else "o"]
        name, axis = next(t for t in part.tensors if t[0] in ("weight", "o"))
        rows = next(iter(part.rows.values()))[removed]
        stored = getattr(part.module, name).detach()
        if stored.is_meta:
            continue  # a skeleton has no numbers
        weight = stored.index_select(axis, rows.flatten())
        trained = weight.movedim(axis, 0).reshape(len(removed), -1).any(1).tolist()
        for number in [n for n, is_trained in zip(removed, trained, strict=True) if is_trained][:1]:
            unit = "head" if site.kind == "heads" else "neuron"
            raise FolderError(
                f"{saved.folder}: {unit} {site.block}.{site.layer}.{number} was removed by "
                "zeroing, and is no longer zero.",
                f"it was trained since; delete the key {RECORD!r} from config.json to keep it",
            )


def _set_source(model: Any, folder: str | Path, where: Mapping[str, Any]) -> None:
    """Note where `save` finds the other files of the model, also from another directory."""
    name = str(folder)
    if Path(folder).is_dir():
        name = str(Path(folder).resolve())
    elif where.get("revision") is not None:
        name = f"{name}@{where['revision']}"
    model.config._name_or_path = name


def skeleton(name: str | Path, *, auto: Any = None, dtype: Any = None) -> Any:
    """The model of a folder or a hub name as `load` would build it, without weights.

    Its modules are on the device "meta", which holds no numbers.

    dtype: as for `load`; by default that of the stored weights.
    """
    where = source(name)
    folder = where.pop("pretrained_model_name_or_path")
    config = read_config(folder, where)
    saved = read_saved(config, folder)
    cls = saved_class(config, folder) if auto is None else task_class(auto, config, folder)
    if saved.is_pruned and not saved.padded:
        cls = cutting_class(cls, saved, [])
    precision = stored_dtype(name) if dtype in (None, "auto") else dtype_named(dtype)
    with _named(folder), torch.device("meta"), quiet():
        model = cls._from_config(config, dtype=precision or getattr(config, "dtype", None))
    if saved.padded:
        cut_saved_heads(model, saved)
    model.config._name_or_path = str(Path(folder).resolve()) if Path(folder).is_dir() else folder
    return model.eval()
