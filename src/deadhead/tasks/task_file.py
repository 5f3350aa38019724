"""A task of your own in a few lines of YAML, read into the same `Task` as those of TASKS.

    name: reviews
    kind: classify            # or tag, translate, lm, choice, qa, similarity, retrieval
    labels: [bad, good]
    texts: [review]           # the columns of the text
    label: stars              # the column of the label
    metrics: [accuracy]
    files: {train: train.tsv, test: "{lang}/test.tsv"}

Paths are relative to the YAML file; the two sides of a translation are written `train.en|train.de`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from deadhead.errors import DataError, unknown_name
from deadhead.files.yaml_limits import refused_in
from deadhead.tasks.reading.formats import FORMATS
from deadhead.tasks.reading.tags import NER_TYPES, has_no_prefixes

from .metrics import METRICS
from .task import KINDS, SPLITS, Task

MAX_CHARACTERS = 1_000_000  # a task file has a few lines; more is a mistake or an attack
PLAIN_TAG_METRICS = ("micro_f1", "macro_f1")  # for tags that mark no spans: NOUN
FIELDS = {
    **dict.fromkeys(("name", "kind", "label", "merge", "format"), str),
    **dict.fromkeys(("metrics", "languages", "texts", "labels", "scores"), list),
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
    labels = tuple(fields.get("labels", ()))
    usual = PLAIN_TAG_METRICS if name == "tag" and has_no_prefixes(labels) else kind.metrics
    metrics = tuple(fields.get("metrics", usual))
    if not metrics:
        message = f"{path}: `metrics` is empty, but tables show its first entry."
        raise DataError(message, f"write metrics: [{usual[0]}]")
    fitting = [known for known, metric in METRICS.items() if metric.compares in kind.compares]
    for metric in metrics:
        if metric not in fitting:
            raise unknown_name(f"metric of the kind {name} (in {path})", metric, fitting)
    form = fields.get("format", "")
    if form and form not in FORMATS:
        raise unknown_name(f"file format (in {path})", form, FORMATS)
    if name == "classify" and not fields.get("texts"):
        message = f"{path}: `texts` is missing: the columns that hold the texts."
        raise DataError(message, "add a line such as texts: [sentence]")
    merge = fields.get("merge", "no").lower()
    if merge not in ("true", "yes", "false", "no"):
        message = f"{path}: `merge` expects true or false, got {merge!r}."
        raise DataError(message, "write merge: true or merge: false")
    return Task(
        name=fields.get("name", path.stem),
        kind=name,
        metrics=metrics,
        languages=tuple(fields.get("languages", ())),
        texts=tuple(fields.get("texts", kind.texts)),
        label=fields.get("label", kind.label),
        labels=labels,
        scores=_scores(path, fields.get("scores", [*map(str, Task.scores)])),
        types=NER_TYPES if merge in ("true", "yes") else None,
        file=str(path),
        files=_files(path, fields.get("files")),
        format=form,
        columns=_columns(path, fields.get("columns", {})),
    )


def _fields(path: Path) -> dict[str, Any]:
    """Parse the YAML; check the names and types of its fields."""
    fields = _parse(path)
    if not isinstance(fields, dict):
        message = f"{path}:1: expected `key: value` lines."
        raise DataError(message, "begin with name, kind and files")
    for key, value in fields.items():
        if key not in FIELDS:
            raise unknown_name(f"key (in {path})", key, FIELDS)
        if not isinstance(value, FIELDS[key]):
            raise DataError(f"{path}: `{key}` expects a {FIELDS[key].__name__}, got {value!r}.")
        for i, word in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(word, str):
                message = f"{path}: `{key}` expects words, got {word!r}."
                raise DataError(message, f"write {key}: [one, two]")
            if word in value[:i]:
                raise DataError(f"{path}: `{key}` has {word!r} twice.", "name each once")
    return fields


def _parse(path: Path) -> Any:
    import yaml

    try:
        text = path.read_text("utf-8")
        if len(text) > MAX_CHARACTERS:
            most = f"a task file has at most {MAX_CHARACTERS:,}"
            raise DataError(f"{path} has {len(text):,} characters; {most}.")
        if (refused := refused_in(text)) is not None:
            line, reason, hint = refused
            raise DataError(f"{path}:{line}: {reason}.", hint)
        return yaml.load(text, yaml.BaseLoader)  # all texts: `no` is a label, not False
    except OSError as error:
        hint = "name a YAML file with --task"
        reason = "a folder is no task file" if path.is_dir() else "there is no such task file"
        raise DataError(f"{path}: {reason}.", hint) from error
    except (yaml.YAMLError, ValueError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        problem = getattr(error, "problem", None) or error
        raise DataError(f"{path}:{line}: not YAML ({problem}).") from error


def _files(path: Path, files: Mapping[str, Any] | None) -> dict[str, str]:
    if not files:
        hint = "add a line such as files: {train: train.tsv, test: test.tsv}"
        raise DataError(f"{path}: `files` is missing.", hint)
    for split, pattern in files.items():
        if split not in SPLITS:
            raise unknown_name(f"split (in {path})", split, SPLITS)
        _check_pattern(path, split, pattern)
    # {lang} is filled in later; braces in the folder's own name must survive that
    folder = Path(str(path.parent).replace("{", "{{").replace("}", "}}"))
    sides = {split: [str(folder / side) for side in files[split].split("|")] for split in files}
    return {split: "|".join(paths) for split, paths in sides.items()}


def _check_pattern(path: Path, split: str, name: Any) -> None:
    """Check that a value of `files` is one path with no other placeholder than {lang}."""
    if not isinstance(name, str):
        message = f"{path}: the {split} file expects one path, got {name!r}."
        hint = f"write files: {{{split}: {split}.tsv}}; two sides of a translation: a.en|a.de"
        raise DataError(message, hint)
    try:
        placeholders = {field for _, field, _, _ in Formatter().parse(name) if field is not None}
    except ValueError:  # a brace without its partner
        placeholders = {name}
    if placeholders - {"lang"}:
        message = f"{path}: only {{lang}} can be filled in; the {split} file is {name!r}."
        raise DataError(message, f"write files: {{{split}: '{{lang}}/{split}.tsv'}}")


def _scores(path: Path, limits: Sequence[str]) -> tuple[float, float]:
    try:
        low, high = map(float, limits)
    except ValueError:
        low = high = 0.0
    if not low < high:
        message = f"{path}: `scores` expects the lowest and the highest score, got {[*limits]}."
        raise DataError(message, "write scores: [0, 5]")
    return low, high


def _columns(path: Path, columns: Mapping[str, Any]) -> dict[str, int]:
    for key, value in columns.items():
        if key not in ("word", "tag"):
            raise unknown_name(f"column (in {path})", key, ("word", "tag"))
        if not re.fullmatch("-?[0-9]{1,3}", str(value)):
            hint = "count columns from 0, or from the end with -1"
            message = f"{path}: `{key}` expects the number of a column, got {value!r}."
            raise DataError(message, hint)
    return {key: int(value) for key, value in columns.items()}
