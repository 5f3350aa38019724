"""Cut the files of a saved model tensor by tensor, without ever loading the model.

The modules are built without numbers, and cutting them says which rows of which tensor stay. The
files then pass through memory one tensor at a time, so a model needs far less memory than its
largest file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.files.model_folder import draft_in, finish_save, swap
from deadhead.files.writing import writing
from deadhead.heads.cut import cut
from deadhead.heads.discover import discover, find_every_site
from deadhead.heads.loading import loading_of
from deadhead.heads.model_card import card
from deadhead.heads.model_files import (
    CARD,
    FLOATS,
    INDEX,
    check_shards,
    copy_files,
    fetch,
    folder_of,
    read_header,
)
from deadhead.heads.prune import RECORD, checked_cuts, note_in_config, record
from deadhead.heads.saved_config import stop_plain_loading
from deadhead.heads.skeleton import skeleton
from deadhead.layout import Groups, Head, HeadLayout

from .prune import Pruned, report, sizes

Rows = dict[str, tuple[int, Tensor]]  # name of a tensor -> axis, and the rows of it that stay
CHUNK = 1 << 24  # bytes that are copied at once
LEAVE_OUT = "leave --by-shards out"


def prune_by_shards(
    name: str,
    out: Path,
    choose: Callable[[HeadLayout], Iterable[Head | str]],
    *,
    groups: Groups = "whole",
) -> Pruned:
    """Remove the heads that `choose` picks, as `prune_saved` does, and write the folder `out`.

    Weights keep their precision and stay in files of the same names.
    """
    fetch(name)
    folder = folder_of(name)
    if folder is None:
        raise FolderError(f"there is no folder {name}.", "download the model first")
    finish_save(folder)
    model, saved = skeleton(name)
    if saved.padded or saved.dropped:
        raise UnsupportedModel(
            "--by-shards expects a folder in the compact form, with its output biases.", LEAVE_OUT
        )
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    files = _files(folder)
    _check_keys(model, shapes, files)
    layout = discover(model)
    removed = layout.check(choose(layout if groups == "whole" else layout.in_single_heads()))
    before = sizes(model)
    rows = _cut(model, removed, groups)
    with writing(out), draft_in(out) as draft:
        for file, header in files.items():
            _cut_file(folder / file, draft / file, header, rows)
        _write_index(folder, draft, files)
        sites = find_every_site(model)
        loading = loading_of(model, sites)
        _write_config(
            model, loading.config, {**record(sites), "form": "compact", **loading.record}, draft
        )
        loading.write_loader(draft)
        copy_files(folder, draft, tokenizer=True)
        text = card(model, sites, loading.how, folder, "")
        (draft / CARD).write_text(text, encoding="utf-8")
        swap(draft, out)
    return report(model, layout, removed, before=before, source=folder, out=out)


def _files(folder: Path) -> dict[str, dict[str, Any]]:
    """The files with weights, each with its header."""
    check_shards(folder)
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if (folder / INDEX).exists():  # there may be other files beside
        stored = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        names = sorted(set(stored["weight_map"].values()))
    if not names:
        raise FolderError(f"{folder} has no safetensors.", LEAVE_OUT)
    for name in names:
        try:
            with safe_open(folder / name, "pt"):  # it checks the whole header
                pass
        except (SafetensorError, OSError) as problem:
            hint = "save or download the folder again"
            raise FolderError(f"{folder / name} is damaged: {problem}.", hint) from None
    return {name: read_header(folder / name) for name in names}


def _check_keys(
    model: Any, shapes: Mapping[str, tuple[int, ...]], files: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise an error unless the files name their tensors as the model does, in the same shapes."""
    known = {
        key: tuple(entry["shape"]) for header in files.values() for key, entry in header.items()
    }
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    wrong = [key for key, shape in known.items() if shapes.get(key) != shape]
    wrong += [key for key in shapes if key not in known and key not in tied]
    if wrong:
        raise UnsupportedModel(
            f"--by-shards expects files with the tensors of {type(model).__name__}, got others: "
            f"{min(wrong)} is missing on one side, or has another shape.",
            LEAVE_OUT,
        )


def _cut(model: Any, removed: tuple[Head, ...], groups: Groups) -> Rows:
    """Cut the modules, and note which rows of each tensor stay."""
    names: dict[int, list[str]] = {}  # several where weights are tied
    for key, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(key)
    rows: Rows = {}
    with torch.device("cpu"):  # row numbers must have values
        expand = groups == "expand"
        cuts = checked_cuts(model, removed, biases=False, expand=expand, loaded=False)
        for site, left in cuts:
            if left == site.kept:
                continue
            before = {
                (id(part), name): names[id(getattr(part.module, name))]
                for part in site.parts.values()
                for name, _ in part.tensors
            }
            for part, index in cut(site, left):
                for name, axis in part.tensors:
                    rows |= dict.fromkeys(before[id(part), name], (axis, index))
    note_in_config(model, [site for site, _ in cuts])
    return rows


def _cut_file(source: Path, target: Path, header: Mapping[str, Any], rows: Rows) -> None:
    """Write a file of weights again with the rows that stay, one tensor at a time."""
    new: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for key, entry in header.items():
        shape, size = list(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0]
        if key in rows:
            axis, index = rows[key]
            size = size // shape[axis] * len(index)
            shape[axis] = len(index)
        new[key] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(new).encode()
    text += b" " * (-len(text) % 8)
    with source.open("rb") as old, target.open("wb") as file:
        start = 8 + int.from_bytes(old.read(8), "little")
        file.write(len(text).to_bytes(8, "little") + text)
        for key, entry in header.items():
            file.writelines(_rows(old, start, entry, rows.get(key)))


def _rows(
    file: BinaryIO, start: int, entry: Mapping[str, Any], kept: tuple[int, Tensor] | None
) -> Iterator[bytes]:
    """The bytes of the rows of a tensor that stay."""
    begin, end = entry["data_offsets"]
    file.seek(start + begin)
    if kept is None:
        while begin < end:
            data = file.read(min(CHUNK, end - begin))
            begin += len(data)
            yield data
        return
    axis, index = kept
    values = torch.frombuffer(bytearray(file.read(end - begin)), dtype=FLOATS[entry["dtype"]])
    cut_values = values.view(entry["shape"]).index_select(axis, index)
    yield cut_values.view(torch.uint8).numpy().tobytes()


def _write_index(folder: Path, draft: Path, files: Mapping[str, Any]) -> None:
    if not (folder / INDEX).exists():
        return
    stored = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    headers = [read_header(draft / name) for name in files]
    offsets = (entry["data_offsets"] for header in headers for entry in header.values())
    stored["metadata"] = {"total_size": sum(end - begin for begin, end in offsets)}
    (draft / INDEX).write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


def _write_config(model: Any, config: Any, listed: dict[str, Any], draft: Path) -> None:
    config = copy.deepcopy(config)
    config.architectures = [type(model).__name__]
    setattr(config, RECORD, listed)
    config.save_pretrained(draft)
    stop_plain_loading(draft, config)
