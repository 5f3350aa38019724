"""A task of your own in a few lines of YAML, read into the same `Task` as those of the table.

    name: reviews
    kind: classify            # or tag, translate
    labels: [bad, good]
    texts: [review]           # the columns of the text
    label: stars              # the column of the label
    metrics: [accuracy]
    files: {train: train.tsv, test: "{lang}/test.tsv"}

Paths are relative to the YAML file; the two sides of a translation are written `train.en|train.de`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from deadhead.errors import DataError, unknown_name
from deadhead.tasks.reading.files import FORMATS
from deadhead.tasks.reading.tags import NER_TYPES

from .dataset import SPLITS
from .metrics import METRICS
from .registry import BLEU, KINDS, WORDS, Task

LARGEST = 1_000_000  # characters; a task file is a screen
METRICS_OF = {
    "classify": ("accuracy", "macro_f1"),
    "tag": ("span_f1", "accuracy"),
    "translate": BLEU,
}
KEYS = {"name": str, "kind": str, "metrics": list, "languages": list, "texts": list, "label": str, "labels": list, "merge": str,
        "files": dict, "format": str, "columns": dict}  # fmt: skip


def read_task_file(path: str | Path) -> Task:
    """The task a YAML file describes; every name in it is checked before anything is read."""
    path = Path(path)
    fields = _fields(path)
    kind = str(fields.get("kind"))
    if kind not in KINDS:
        raise unknown_name(f"kind of task (in {path})", kind, KINDS)
    metrics = tuple(fields.get("metrics", METRICS_OF[kind]))
    _check_metrics(path, kind, metrics)
    form = fields.get("format", "")
    if form and form not in FORMATS:
        raise unknown_name(f"file format (in {path})", form, FORMATS)
    if kind == "classify" and not fields.get("texts"):
        raise DataError(
            f"{path}: no texts: which columns are to be read?",
            "add a line such as texts: [sentence]",
        )
    return Task(
        name=fields.get("name", path.stem),
        kind=kind,
        metrics=metrics,
        languages=tuple(fields.get("languages", ())),
        texts=tuple(fields.get("texts", (WORDS,) if kind == "tag" else ())),
        label=fields.get("label", "tags|labels" if kind == "tag" else "label"),
        labels=tuple(fields.get("labels", ())),
        types=NER_TYPES if _yes(path, fields.get("merge", "no")) else None,
        files=_files(path, fields.get("files")),
        format=form,
        columns=_columns(path, fields.get("columns", {})),
    )


def _check_metrics(path: Path, kind: str, metrics: tuple[str, ...]) -> None:
    known = [name for name in METRICS if METRICS[name].of_texts is (kind == "translate")]
    if not metrics:
        raise DataError(
            f"{path}: metrics is empty, and tables show the first of them.",
            f"write metrics: [{METRICS_OF[kind][0]}]",
        )
    for metric in metrics:
        if metric not in known:
            raise unknown_name(f"metric of the kind {kind} (in {path})", metric, known)


def _yes(path: Path, text: str) -> bool:
    if text.lower() not in ("true", "yes", "false", "no"):
        raise DataError(f"{path}: merge is {text!r}.", "write merge: true or merge: false")
    return text.lower() in ("true", "yes")


def _fields(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text("utf-8")
        if len(text) > LARGEST:
            raise DataError(
                f"{path} has {len(text):,} characters; a task file has at most {LARGEST:,}."
            )
        alias = next(
            (e for e in yaml.parse(text, yaml.BaseLoader) if isinstance(e, yaml.AliasEvent)), None
        )
        if alias is not None:  # a few hundred bytes of them can stand for gigabytes
            line = alias.start_mark.line + 1
            raise DataError(
                f"{path}:{line}: *{alias.anchor} repeats an anchor.", "write the value out"
            )
        fields = yaml.load(text, yaml.BaseLoader)  # all texts: `no` is a label, not False
    except OSError as error:
        raise DataError(
            f"{path}: there is no such task file.", "name a YAML file with --task-file"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise DataError(
            f"{path}:{line}: not YAML ({getattr(error, 'problem', None) or error})."
        ) from error
    if not isinstance(fields, dict):
        raise DataError(
            f"{path}:1: a task file is a list of `key: value` lines.",
            "begin with name, kind and files",
        )
    for key, value in fields.items():
        if key not in KEYS:
            raise unknown_name(f"key (in {path})", key, KEYS)
        if not isinstance(value, KEYS[key]):
            raise DataError(
                f"{path}: {key} is {value!r} where a {KEYS[key].__name__} was expected."
            )
        if isinstance(value, list):
            _check_list(path, key, value)
    return fields


def _check_list(path: Path, key: str, values: list[Any]) -> None:
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"{path}: {key} holds {value!r} where a word was expected.",
                f"write {key}: [one, two]",
            )
        if value in values[:i]:
            raise DataError(f"{path}: {key} has {value!r} twice.", "name each once")


def _files(path: Path, files: Mapping[str, Any] | None) -> dict[str, str]:
    if not files:
        raise DataError(
            f"{path}: no files.", "add a line such as files: {train: train.tsv, test: test.tsv}"
        )
    for split in files:
        if split not in SPLITS:
            raise unknown_name(f"split (in {path})", split, SPLITS)
        _check_pattern(path, split, files[split])
    folder = Path(str(path.parent).replace("{", "{{").replace("}", "}}"))  # its braces are its own
    return {
        split: "|".join(str(folder / side) for side in names.split("|"))
        for split, names in files.items()
    }


def _check_pattern(path: Path, split: str, name: Any) -> None:
    """One path, in which nothing is to be filled in but the language."""
    if not isinstance(name, str):
        raise DataError(
            f"{path}: the {split} file is {name!r}, not one path.",
            f"write files: {{{split}: {split}.tsv}}; two sides of a translation: a.en|a.de",
        )
    try:
        places = {field for _, field, _, _ in Formatter().parse(name) if field is not None}
    except ValueError:  # a brace without its partner
        places = {name}
    if places - {"lang"}:
        raise DataError(
            f"{path}: only {{lang}} can be filled in; the {split} file is {name!r}.",
            f"write files: {{{split}: '{{lang}}/{split}.tsv'}}",
        )


def _columns(path: Path, columns: Mapping[str, Any]) -> dict[str, int]:
    for key, value in columns.items():
        if key not in ("word", "tag"):
            raise unknown_name(f"column (in {path})", key, ("word", "tag"))
        if not re.fullmatch("-?[0-9]{1,3}", str(value)):
            raise DataError(
                f"{path}: the column of the {key} is {value!r}.",
                "count columns from 0, or from the end with -1",
            )
    return {key: int(value) for key, value in columns.items()}
