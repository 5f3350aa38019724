"""Records in, rows out: tsv, csv, jsonl and hub data are all fields with names, and one function reads them.

Columns are found by the names in the task's table (`premise|sentence1`); a tsv without a header has
the texts first and the label last. MASSIVE's `[slot : words]` and MultiATIS++'s blank-separated
columns are records too.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks.languages import code_of, languages
from deadhead.tasks.splits import SPLIT_NAMES
from deadhead.tasks.task import Row, Task

from .lines import bad, lines
from .tags import split_tag, to_bio

NO_LABEL = "-"  # MNLI and SNLI: the annotators did not agree
SAME_LABEL = {"contradictory": "contradiction"}  # the machine-translated training sets of XNLI
BLANK = "rows with a text that is blank"
BLANK_WORDS = "words that are blank"
MANY_DIGITS = 9  # no task has labels beyond; a longer number is not turned into one
UNSPACED = ("zh", "ja")  # MASSIVE writes these without blanks; a character is a word


class Unusable(Exception):
    """What is wrong with one record; the caller knows the file and the line."""


class Unlabelled(Unusable):
    """The record has no label by intent, so it is dropped and counted."""


def row_of(record: Mapping[str, Any], task: Task, lang: str, notes: Counter[str]) -> Row:
    """The row of a record for a task, or `Unusable`; what is odd about it is counted in `notes`."""
    return _ROW_OF[task.kind](record, task, lang, notes)


def _classify(record: Mapping[str, Any], task: Task, lang: str, notes: Counter[str]) -> Row:
    texts = tuple(_text(_get(record, names)) for names in task.texts)
    row = Row(texts, (label_of(_get(record, task.label), task),))
    notes[BLANK] += not all(text.strip() for text in texts)  # kept and told
    return row


def label_of(value: Any, task: Task) -> str:
    """The name of a label given by name or by number."""
    text = (
        str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    )
    text = SAME_LABEL.get(text, text)
    if text in task.labels or (text and not task.labels):
        return text
    if text.isdecimal() and len(text) <= MANY_DIGITS and int(text) < len(task.labels):
        return task.labels[int(text)]
    if text == NO_LABEL:
        raise Unlabelled("no label")
    hidden = " (the label is withheld)" if text == "-1" else ""
    raise Unusable(
        f"{_short(value)} is not a label of {task.name}{hidden}; its labels are {', '.join(task.labels) or 'words'}."
    )


def _tag(record: Mapping[str, Any], task: Task, lang: str, notes: Counter[str]) -> Row:
    if "annot_utt" in record:
        words, tags = massive(_text(record["annot_utt"]), str(record.get("locale", lang))[:2])
    else:
        words, tags = (
            _many(_get(record, "|".join(task.texts)), blank=True),
            _many(_get(record, task.label)),
        )
    if len(words) != len(tags):
        raise Unusable(f"{len(tags)} tags for {len(words)} words.")
    if not words:
        raise Unusable("no words.")
    notes[BLANK_WORDS] += sum(
        not word.strip() for word in words
    )  # some corpora tag them, so they are kept and counted
    wrong = next((tag for tag in tags if task.spans and split_tag(tag) is None), None)
    if wrong is not None:
        raise Unusable(
            f"{_short(wrong)} is not a tag of {task.name}: those are O, B-TYPE and I-TYPE."
        )
    if task.types is not None:
        tags, begun = to_bio(tags, task.types or None)
        notes["spans begun by I-"] += begun
        return Row(words, tags)
    unknown = next((tag for tag in tags if task.labels and tag not in task.labels), None)
    if unknown is not None:
        raise Unusable(f"{_short(unknown)} is not a label of {task.name}.")
    return Row(words, tags)


_SLOT = re.compile(r"\[([^\[\]:]+):([^\[\]]*)\]|([^\[\]]+)")


def massive(text: str, lang: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words and slot tags of MASSIVE's `wake me at [time : nine am]`."""
    words: list[str] = []
    tags: list[str] = []
    end = 0
    for match in _SLOT.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        part = (match[2] if match[1] else match[3]).split()
        part = [char for piece in part for char in piece] if lang in UNSPACED else part
        words += part
        tags += (
            [("I-" if i else "B-") + match[1].strip() for i in range(len(part))]
            if match[1]
            else ["O"] * len(part)
        )
    if end != len(text):
        raise Unusable(f"unmatched bracket in {_short(text)}.")
    return tuple(words), tuple(tags)


def _translate(record: Mapping[str, Any], task: Task, lang: str, notes: Counter[str]) -> Row:
    inner = record.get("translation", record)
    source, target = lang.split("-") if "-" in lang else ("source", "target")
    if not isinstance(inner, Mapping):
        raise Unusable("the field 'translation' is not an object.")
    pair = tuple(
        _text(_get(inner, names)).strip() for names in (f"{source}|source", f"{target}|target")
    )
    if not all(pair):
        raise Unlabelled("an empty side")
    return Row(pair)


_ROW_OF: Mapping[str, Callable[[Mapping[str, Any], Task, str, Counter[str]], Row]] = {
    "classify": _classify,
    "tag": _tag,
    "translate": _translate,
}


def _get(record: Mapping[str, Any], names: str) -> Any:
    for name in names.split("|"):
        if record.get(name) is not None:
            return record[name]
    raise Unusable(f"no field {names.replace('|', ' or ')}.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable(f"{_short(value)} where a text was expected.")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise Unusable("half of a surrogate pair: this is not Unicode text.")
    return value


def _many(value: Any, blank: bool = False) -> tuple[str, ...]:
    items = [item for item in value.split(" ") if item] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise Unusable(f"{_short(value)} where a list was expected.")
    if not all(isinstance(item, str) and (blank or item.strip()) for item in items):
        raise Unusable("an empty tag, or a word or tag that is not a text.")
    return tuple(map(_text, items))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def read_tsv(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **options: Any
) -> list[Row]:
    """Tab-separated, never quoted, with or without a header."""
    (path,) = files.values()
    cells = ((number, line.split("\t")) for number, line in lines(path) if line.strip(" "))
    return _collect(_named(path, cells, task, options), path, task, notes, options)


def read_csv(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **options: Any
) -> list[Row]:
    """Comma-separated, with quotes where needed."""
    (path,) = files.values()
    before = csv.field_size_limit(sys.maxsize)
    try:
        return _collect(_named(path, _csv(path), task, options), path, task, notes, options)
    finally:
        csv.field_size_limit(before)


def _csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in lines(path)), strict=True)
    begin = 1
    try:
        for cells in reader:
            if cells:
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise bad(
            path, begin, f"not csv ({error}).", "double the quotes inside quoted fields"
        ) from error


def _named(
    path: Path, rows: Iterable[tuple[int, list[str]]], task: Task, options: Mapping[str, Any]
) -> Iterator[tuple[int, Any]]:
    """Cells with the names of their columns; a line of another width gives no record but its complaint."""
    header: list[str] = []
    for number, cells in rows:
        if not header:
            header = _header(path, number, cells, task, str(options.get("lang", "")))
            if header == cells:
                _check_header(path, number, header, task)
                continue
        if len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        else:
            yield number, Unusable(f"{len(cells)} columns where {len(header)} were expected.")


def _header(path: Path, number: int, cells: list[str], task: Task, lang: str) -> list[str]:
    """The first line, if it names the task's columns; else the names of a file without a header."""
    texts = task.texts or tuple(
        f"{side}|{name}" for side, name in zip(lang.split("-"), ("source", "target"), strict=False)
    )
    wanted = texts if task.kind == "translate" else (*texts, task.label)
    there = [any(name in cells for name in names.split("|")) for names in wanted]
    if all(there) or "annot_utt" in cells:
        return cells
    if any(there):  # a header with a column misnamed or missing, which must not become a row
        gone = wanted[there.index(False)].replace("|", " or ")
        raise bad(
            path,
            number,
            f"the first line names columns, but none is {gone}.",
            "name the columns as the task does, or leave the first line out",
        )
    return [names.partition("|")[0] for names in wanted]


def _check_header(path: Path, number: int, header: list[str], task: Task) -> None:
    read = {name for names in (*task.texts, task.label) for name in names.split("|")}
    twice = next((name for name in header if name in read and header.count(name) > 1), None)
    if twice is not None:
        raise bad(
            path,
            number,
            f"{header.count(twice)} columns are named {twice!r}.",
            "give every column that is read a name of its own",
        )


def read_jsonl(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **options: Any
) -> list[Row]:
    """One JSON object a line."""
    (path,) = files.values()
    return _collect(_json(path, options.get("partition")), path, task, notes, options)


def _json(path: Path, partition: str | None) -> Iterator[tuple[int, Any]]:
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, Unusable(f"not JSON ({str(error)[:80]}).")
            continue
        if not isinstance(record, dict):
            yield number, Unusable("not a JSON object.")
        elif partition is None:
            yield number, record
        elif not isinstance(record.get("partition"), str) or record["partition"] not in SPLIT_NAMES:
            yield (
                number,
                Unusable(
                    f"{_short(record.get('partition'))} in the field 'partition', which names no split."
                ),
            )
        elif SPLIT_NAMES[record["partition"]] == partition:
            yield number, record


def _collect(
    items: Iterable[tuple[int, Any]],
    path: Path,
    task: Task,
    notes: Counter[str],
    options: Mapping[str, Any],
) -> list[Row]:
    """Rows of the records; with `malformed="drop"` the bad ones are counted instead of refused."""
    rows: list[Row] = []
    for number, item in items:
        try:
            if isinstance(item, Unusable):
                raise item
            lang = str(options.get("lang", ""))
            if not _other_language(
                item, lang, notes
            ):  # in a file of all languages each is read for itself
                rows.append(row_of(item, task, lang, notes))
        except Unlabelled as reason:
            notes[f"dropped: {reason}"] += 1
        except Unusable as reason:
            if options.get("malformed") != "drop":
                raise _refusal(path, number, reason) from None
            notes["malformed lines dropped"] += 1
    return rows


def _other_language(record: Mapping[str, Any], lang: str, notes: Counter[str]) -> bool:
    """XNLI's own files hold all languages, each row with its code; a row of a language that nobody knows is kept and told."""
    name = record.get("language")
    if not isinstance(name, str) or lang not in languages():
        return False
    code = code_of(name)
    notes["rows of an unknown language kept"] += code is None
    return code is not None and code != lang


def _refusal(path: Path, number: int, reason: Unusable) -> DataError:
    drop = 'malformed="drop" in Python, data: {malformed: drop} in a recipe, --malformed drop in deadhead data check'
    return bad(
        path, number, str(reason), f"correct the line, or skip such lines and count them: {drop}"
    )
