"""A task of your own in a few lines of YAML, read into the same `Task` as those of TASKS.

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
from deadhead.tasks.reading.formats import FORMATS
from deadhead.tasks.reading.tags import NER_TYPES

from .metrics import METRICS
from .splits import SPLITS
from .task import KINDS, Task

MAX_CHARACTERS = 1_000_000  # a task file has a few lines; more is a mistake or an attack
FIELDS = {
    **dict.fromkeys(("name", "kind", "label", "merge", "format"), str),
    **dict.fromkeys(("metrics", "languages", "texts", "labels"), list),
    **dict.fromkeys(("files", "columns"), dict),
}


def is_task_file(name: str) -> bool:
    """Whether the name of a task is the path of a task file."""
    return name.endswith((".yaml", ".yml"))


def read_task_file(path: str | Path) -> Task:
    """Read the task of a YAML file; every name in it is checked before any data is read."""
    path = Path(path)
    fields = _fields(path)
    name = str(fields.get("kind"))
    if name not in KINDS:
        raise unknown_name(f"kind of task (in {path})", name, KINDS)
    kind = KINDS[name]
    metrics = tuple(fields.get("metrics", kind.metrics))
    _check_metrics(path, name, metrics)
    form = fields.get("format", "")
    if form and form not in FORMATS:
        raise unknown_name(f"file format (in {path})", form, FORMATS)
    if name == "classify" and not fields.get("texts"):
        raise DataError(
            f"{path}: `texts` is missing: the columns that hold the texts.",
            "add a line such as texts: [sentence]",
        )
    return Task(
        name=fields.get("name", path.stem),
        kind=name,
        metrics=metrics,
        languages=tuple(fields.get("languages", ())),
        texts=tuple(fields.get("texts", kind.texts)),
        label=fields.get("label", kind.label),
        labels=tuple(fields.get("labels", ())),
        types=NER_TYPES if _is_true(path, fields.get("merge", "no")) else None,
        files=_files(path, fields.get("files")),
        format=form,
        columns=_columns(path, fields.get("columns", {})),
    )


def _check_metrics(path: Path, kind: str, metrics: tuple[str, ...]) -> None:
    if not metrics:
        raise DataError(
            f"{path}: `metrics` is empty, but tables show its first entry.",
            f"write metrics: [{KINDS[kind].metrics[0]}]",
        )
    fitting = [name for name, m in METRICS.items() if m.compares in KINDS[kind].compares]
    for metric in metrics:
        if metric not in fitting:
            raise unknown_name(f"metric of the kind {kind} (in {path})", metric, fitting)


def _is_true(path: Path, text: str) -> bool:
    if text.lower() not in ("true", "yes", "false", "no"):
        raise DataError(f"{path}: `merge` is {text!r}.", "write merge: true or merge: false")
    return text.lower() in ("true", "yes")


def _fields(path: Path) -> dict[str, Any]:
    """Parse the YAML; check the names and types of its fields."""
    fields = _parse(path)
    if not isinstance(fields, dict):
        raise DataError(
            f"{path}:1: expected `key: value` lines.", "begin with name, kind and files"
        )
    for key, value in fields.items():
        if key not in FIELDS:
            raise unknown_name(f"key (in {path})", key, FIELDS)
        if not isinstance(value, FIELDS[key]):
            raise DataError(f"{path}: `{key}` expects a {FIELDS[key].__name__}, got {value!r}.")
        if isinstance(value, list):
            _check_list(path, key, value)
    return fields


def _parse(path: Path) -> Any:
    import yaml

    try:
        text = path.read_text("utf-8")
        if len(text) > MAX_CHARACTERS:
            raise DataError(
                f"{path} has {len(text):,} characters; a task file has at most {MAX_CHARACTERS:,}."
            )
        for event in yaml.parse(text, yaml.BaseLoader):
            if isinstance(event, yaml.AliasEvent):  # a few hundred bytes can expand to gigabytes
                line = event.start_mark.line + 1
                raise DataError(
                    f"{path}:{line}: *{event.anchor} repeats an anchor.", "write the value out"
                )
        return yaml.load(text, yaml.BaseLoader)  # all texts: `no` is a label, not False
    except OSError as error:
        raise DataError(
            f"{path}: there is no such task file.", "name a YAML file with --task-file"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        problem = getattr(error, "problem", None) or error
        raise DataError(f"{path}:{line}: not YAML ({problem}).") from error


def _check_list(path: Path, key: str, values: list[Any]) -> None:
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"{path}: `{key}` expects words, got {value!r}.", f"write {key}: [one, two]"
            )
        if value in values[:i]:
            raise DataError(f"{path}: `{key}` has {value!r} twice.", "name each once")


def _files(path: Path, files: Mapping[str, Any] | None) -> dict[str, str]:
    if not files:
        raise DataError(
            f"{path}: `files` is missing.",
            "add a line such as files: {train: train.tsv, test: test.tsv}",
        )
    for split, pattern in files.items():
        if split not in SPLITS:
            raise unknown_name(f"split (in {path})", split, SPLITS)
        _check_pattern(path, split, pattern)
    # {lang} is filled in later; braces in the folder's own name must survive that
    folder = Path(str(path.parent).replace("{", "{{").replace("}", "}}"))
    return {
        split: "|".join(str(folder / side) for side in names.split("|"))
        for split, names in files.items()
    }


def _check_pattern(path: Path, split: str, name: Any) -> None:
    """Check that a value of `files` is one path with no other placeholder than {lang}."""
    if not isinstance(name, str):
        raise DataError(
            f"{path}: the {split} file expects one path, got {name!r}.",
            f"write files: {{{split}: {split}.tsv}}; two sides of a translation: a.en|a.de",
        )
    try:
        placeholders = {field for _, field, _, _ in Formatter().parse(name) if field is not None}
    except ValueError:  # a brace without its partner
        placeholders = {name}
    if placeholders - {"lang"}:
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
