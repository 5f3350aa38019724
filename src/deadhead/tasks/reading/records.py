"""Readers of records: tsv, csv, jsonl and hub data are all fields with names.

Columns are matched by the names in the task (`premise|sentence1`); a tsv without a header has the
texts first and the label last. MASSIVE's `[slot : words]` and MultiATIS++'s blank-separated columns
are records too.
"""

import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from deadhead.tasks.languages import code_of, languages
from deadhead.tasks.task import SPLIT_NAMES, Row, Task

from .columns import BLANK_WORDS
from .lines import at_blanks, bad, lines, shorten
from .tags import split_tag, tags_expected, to_bio

Notes = Counter[str]
Record = Mapping[str, Any]
NO_SCORE = "no gold score"
NO_LABEL = "-"  # MNLI and SNLI: the annotators did not agree
SAME_LABEL = {"contradictory": "contradiction"}  # the machine-translated training sets of XNLI
MAX_DIGITS = 9  # a longer number is no label
UNSPACED = ("zh", "ja")  # MASSIVE writes these without blanks; a character is a word
DROP = (
    "correct or remove the line; in a study, --set fixed.data.malformed=drop skips and counts "
    'such lines, in Python malformed="drop"'
)
_SLOT = re.compile(r"\[([^\[\]:]+):([^\[\]]*)\]|([^\[\]]+)")


class Unusable(Exception):
    """What is wrong with one record; the caller knows the file and the line."""


class Unlabelled(Unusable):
    """The record has no label by intent, so it is dropped and counted."""


def row_of(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """Return the row of a record for a task, or raise `Unusable`; `notes` counts oddities."""
    return ROW_OF[task.traits.label_unit](record, task, lang, notes)


def _text_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    texts = tuple(_text(_get(record, names)) for names in task.texts)
    row = Row(texts, (label_of(_get(record, task.label), task),))
    notes["rows with a text that is blank"] += not all(text.strip() for text in texts)
    return row


def label_of(value: Any, task: Task) -> str:
    """Return the name of a label given by name or by number."""
    is_label = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip() if is_label else ""
    text = SAME_LABEL.get(text, text)
    if text in task.labels or (text and not task.labels):
        return text
    if text.isdecimal() and len(text) <= MAX_DIGITS and int(text) < len(task.labels):
        return task.labels[int(text)]
    if text == NO_LABEL:
        raise Unlabelled("no label")
    hidden = " (the label is withheld)" if text == "-1" else ""
    known = ", ".join(task.labels) or "words"
    name = f"{shorten(value)} is not a label of {task.title}{hidden}"
    raise Unusable(f"{name}; its labels are {known}.")


def _word_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """Words and their tags."""
    if "annot_utt" in record:
        words, tags = massive(_text(record["annot_utt"]), str(record.get("locale", lang))[:2])
    else:
        words = _list(_get(record, "|".join(task.texts)), blank=True)
        tags = _list(_get(record, task.label))
    if len(words) != len(tags):
        raise Unusable(f"{len(tags)} tags for {len(words)} words.")
    if not words:
        raise Unusable("no words.")
    notes[BLANK_WORDS] += sum(not word.strip() for word in words)  # some corpora tag them
    for tag in tags:
        if task.spans and split_tag(tag) is None:
            kinds = f"those are {tags_expected(task_file=bool(task.files))}"
            raise Unusable(f"{shorten(tag)} is not a tag of {task.title}: {kinds}.")
    if task.types is not None:
        tags, begun = to_bio(tags, task.types or None)
        notes["spans begun by I-"] += begun
        return Row(words, tags)
    for tag in tags:
        if task.labels and tag not in task.labels:
            raise Unusable(f"{shorten(tag)} is not a label of {task.title}.")
    return Row(words, tags)


def massive(text: str, lang: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words and slot tags of MASSIVE's `wake me at [time : nine am]`."""
    words: list[str] = []
    tags = []
    end = 0
    for match in _SLOT.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        slot = match[1]
        part = (match[2] if slot else match[3]).split()
        if lang in UNSPACED:
            part = [char for piece in part for char in piece]
        words += part
        tags += [f"{'I' if i else 'B'}-{slot.strip()}" if slot else "O" for i in range(len(part))]
    if end != len(text):
        raise Unusable(f"unmatched bracket in {shorten(text)}.")
    return tuple(words), tuple(tags)


def _pair_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """A source and a target text."""
    inner = record.get("translation", record)
    if not isinstance(inner, Mapping):
        raise Unusable("the field 'translation' is not an object.")
    source, target = lang.split("-") if "-" in lang else ("source", "target")
    sides = (f"{source}|source", f"{target}|target")
    pair = tuple(_text(_get(inner, names)).strip() for names in sides)
    if not all(pair):
        raise Unlabelled("an empty side")
    return Row(pair)


def _choice_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """A context and its options, and the number of the right one."""
    context, options = (_get(record, names) for names in task.texts)
    answer = _get(record, task.label)
    names = [names.replace("|", " or ") for names in (*task.texts, task.label)]
    if not isinstance(context, str):
        raise Unusable(f"`{names[0]}` expects a text, got {shorten(context)}.")
    is_list = isinstance(options, list | tuple)
    if not is_list or not all(isinstance(option, str) for option in options):
        raise Unusable(f"`{names[1]}` expects a list of texts, got {shorten(options)}.")
    if len(options) < 2:
        raise Unusable(f"`{names[1]}` expects two texts or more, got {len(options)}.")
    bare = [_text(option).strip() for option in options]
    for number, option in enumerate(bare):
        if not option:
            raise Unusable(f"option {number} (counted from 0) is empty.")
        if option in bare[:number]:
            pair = f"options {bare.index(option)} and {number} (counted from 0)"
            raise Unusable(f"{pair} are equal: {shorten(option)}.")
    if type(answer) is not int or not 0 <= answer < len(options):
        expected = f"the number of an option, 0 to {len(options) - 1}"
        raise Unusable(f"`{names[2]}` expects {expected}, got {shorten(answer)}.")
    joined = context[-1:].strip() and any(option[0].strip() for option in options)
    notes["rows without a blank between context and option"] += bool(joined)
    return Row((_text(context), *options), (str(answer),))


def _answer_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """A question, its context, and the answers in it, each with the character where it starts."""
    question, context = (_text(_get(record, names)) for names in task.texts)
    number = _get(record, "id")
    if not isinstance(number, str | int) or isinstance(number, bool):
        raise Unusable(f"`id` expects a text or a number, got {shorten(number)}.")
    labels = [_text(str(number))]
    for text, start in _answers(_get(record, task.label), labels[0]):
        name = f"the answer {shorten(text)} of question {labels[0]}"
        if not _text(text).strip():
            raise Unusable(f"an answer of question {labels[0]} is empty.")
        if type(start) is not int or start < 0:
            raise Unusable(f"{name} expects the character where it starts, got {shorten(start)}.")
        there = context[start : start + len(text)]
        if there != text:
            raise Unusable(f"{name} is not at character {start} of its context: {shorten(there)}.")
        labels += [str(start), text]
    if len(labels) == 1:
        raise Unlabelled("questions without an answer")
    notes["rows with a text that is blank"] += not question.strip()
    return Row((question, context), tuple(labels))


def _answers(answers: Any, number: str) -> list[tuple[Any, Any]]:
    """Return texts and starts of answers: a list of objects, or two lists in one (on the hub)."""
    expected = "a list of objects with `text` and `answer_start`"
    if isinstance(answers, Mapping):
        columns = [answers.get(name) for name in ("text", "answer_start")]
        texts, starts = (list(c) if isinstance(c, list | tuple) else [None] for c in columns)
        answers = [{"text": t, "answer_start": s} for t, s in zip_longest(texts, starts)]
    if not isinstance(answers, list) or not all(isinstance(a, Mapping) for a in answers):
        got = shorten(answers)
        raise Unusable(f"the answers of question {number} expect {expected}, got {got}.")
    return [(_get(answer, "text"), _get(answer, "answer_start|start")) for answer in answers]


def _scored_row(record: Record, task: Task, lang: str, notes: Notes) -> Row:
    """Two texts and their score, as the number that was given."""
    texts = tuple(_text(_get(record, names)) for names in task.texts)
    values = [record[name] for name in task.label.split("|") if name in record]
    if not values:
        _get(record, task.label)  # raises
    value = next((value for value in values if value is not None and value != ""), None)
    if value is None:
        raise Unlabelled(NO_SCORE)
    row = Row(texts, (score_of(value, task),))
    notes["rows with a text that is blank"] += not all(text.strip() for text in texts)
    return row


def score_of(value: Any, task: Task) -> str:
    """Return a score of a pair as text, if it is a number of the task's range."""
    low, high = task.scores
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        what = "a score" if math.isnan(number) else f"a score from {low:g} to {high:g}"
        hidden = " (the test set of GLUE withholds its scores)" if number == -1 else ""
        other = "a task file may name another range: scores: [0, 100]"
        raise Unusable(f"{shorten(value)} is not {what}{hidden}; {other}.")
    return repr(number)


ROW_OF = {  # by what has a label
    "pair": _scored_row,
    "row": _text_row,
    "word": _word_row,
    "text": _pair_row,
    "token": lambda record, task, lang, notes: Row((_text(_get(record, task.texts[0])),)),
    "option": _choice_row,
    "span": _answer_row,
}


def _get(record: Record, names: str) -> Any:
    for name in names.split("|"):
        if record.get(name) is not None:
            return record[name]
    raise Unusable(f"no field {names.replace('|', ' or ')}.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable(f"{shorten(value)} where a text was expected.")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise Unusable("half of a surrogate pair: this is not Unicode text.")
    return value


def _list(value: Any, blank: bool = False) -> tuple[str, ...]:
    items = at_blanks(value) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise Unusable(f"{shorten(value)} where a list was expected.")
    if not all(isinstance(item, str) and (blank or item.strip()) for item in items):
        raise Unusable("an empty tag, or a word or tag that is not a text.")
    return tuple(map(_text, items))


def read_tsv(files: Mapping[str, Path], task: Task, notes: Notes, **options: Any) -> list[Row]:
    """Read tab-separated lines, never quoted, with or without a header."""
    (path,) = files.values()
    cells = ((number, line.split("\t")) for number, line in lines(path) if line.strip(" "))
    records = _records(path, cells, task, options)
    return collect(records, path, task, notes, options)


def read_csv(files: Mapping[str, Path], task: Task, notes: Notes, **options: Any) -> list[Row]:
    """Read comma-separated lines, with quotes where needed."""
    (path,) = files.values()
    before = csv.field_size_limit(sys.maxsize)
    try:
        records = _records(path, _csv(path), task, options)
        return collect(records, path, task, notes, options)
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
        hint = "double the quotes inside quoted fields"
        raise bad(path, begin, f"not csv ({error}).", hint) from error


def _records(
    path: Path, rows: Iterable[tuple[int, list[str]]], task: Task, options: Mapping[str, Any]
) -> Iterator[tuple[int, Any]]:
    """Yield cells with the names of their columns; for a line of another width, an `Unusable`."""
    header: list[str] = []
    for number, cells in rows:
        if not header:
            header = _header(path, number, cells, task, str(options.get("lang", "")))
            if header == cells:
                continue
        if len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        else:
            columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            yield number, Unusable(f"{columns} where {len(header)} were expected.")


def _header(path: Path, number: int, cells: list[str], task: Task, lang: str) -> list[str]:
    """Return the first line if it names the task's columns; else the names of a bare file."""
    if task.traits.label_unit != "text":
        columns = (*task.texts, task.label)
    else:
        sides = zip(lang.split("-"), ("source", "target"), strict=False)
        columns = task.texts or tuple(f"{side}|{name}" for side, name in sides)
    named = [any(name in cells for name in names.split("|")) for names in columns]
    if all(named) or "annot_utt" in cells:
        read = {name for names in (*task.texts, task.label) for name in names.split("|")}
        for name in cells:
            if name in read and cells.count(name) > 1:
                hint = "give every column that is read a name of its own"
                raise bad(path, number, f"{cells.count(name)} columns are named {name!r}.", hint)
        return cells
    if any(named):  # a header with a column misnamed or missing, which must not become a row
        missing = columns[named.index(False)].replace("|", " or ")
        message = f"the first line names columns, but none is {missing}."
        hint = "name the columns as the task does, or leave the first line out"
        raise bad(path, number, message, hint)
    return [names.partition("|")[0] for names in columns]


def read_jsonl(files: Mapping[str, Path], task: Task, notes: Notes, **options: Any) -> list[Row]:
    """Read one JSON object a line."""
    (path,) = files.values()
    return collect(_json(path, options.get("partition")), path, task, notes, options)


def _json(path: Path, partition: str | None) -> Iterator[tuple[int, Any]]:
    for number, line in lines(path):
        if not line.strip():
            continue
        if line.lstrip().startswith("["):
            yield number, Unusable("a JSON list, where each line should be one JSON object.")
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
        else:
            part = record.get("partition")
            if "partition" not in record:
                message = "neither the name of the file nor a field 'partition' names a split: "
                yield number, Unusable(f"{message}call it train.jsonl, dev.jsonl or test.jsonl.")
            elif not isinstance(part, str) or part not in SPLIT_NAMES:
                message = f"{shorten(part)} in the field 'partition', which names no split."
                yield number, Unusable(message)
            elif SPLIT_NAMES[part] == partition:
                yield number, record


def collect(
    items: Iterable[tuple[int, Any]], path: Path, task: Task, notes: Notes, options: Record
) -> list[Row]:
    """Return the rows of the records; with `malformed="drop"`, count bad ones."""
    rows = []
    lang = str(options.get("lang", ""))
    for number, item in items:
        try:
            if isinstance(item, Unusable):
                raise item
            if not _is_other_language(item, lang, notes):
                rows.append(row_of(item, task, lang, notes))
        except Unlabelled as reason:
            notes[f"dropped: {reason}"] += 1
        except Unusable as reason:
            if options.get("malformed") != "drop":
                raise bad(path, number, str(reason), DROP) from None
            notes["malformed lines dropped"] += 1
    return rows


def _is_other_language(record: Record, lang: str, notes: Notes) -> bool:
    """Whether a row is of another language: XNLI's own files hold all, each row with its code."""
    name = record.get("language")
    if not isinstance(name, str) or lang not in languages():
        return False
    code = code_of(name)
    notes["rows of an unknown language kept"] += code is None
    return code is not None and code != lang
