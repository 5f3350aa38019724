"""Retrieval: a corpus, queries, and the documents that were judged for each query.

As in BEIR: `corpus.jsonl` with `_id`, `title` and `text`, `queries.jsonl` with `_id` and `text`,
and `qrels/test.tsv` with the ids of a query and a document, and a grade; or all three as tables.
Title and text are joined by a blank. Grades above 0 are relevant.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks.task import Row

from .lines import bad, lines, shorten

ROLES = ("corpus", "queries", "qrels")
IDS = ("_id", "id", "doc_id", "docid", "query_id", "query-id", "qid", "pid")
TITLE, TEXT = "title", "text"
JUDGMENT = ("query-id", "corpus-id", "score")  # as in BEIR

Records = Iterable[tuple[int, Mapping[str, Any]]]


def read_retrieval(
    files: Mapping[str, Path], notes: Counter[str]
) -> tuple[list[Row], dict[str, str]]:
    """Return the queries with their judgments, and the documents by id."""
    missing = [role for role in ROLES if role not in files]
    if missing:
        here = next(iter(files.values()))
        hint = "retrieval needs a corpus, queries and qrels: corpus.jsonl|queries.jsonl|qrels.tsv"
        raise DataError(f"{here}: there is no file of {' or '.join(missing)}.", hint)
    tables = {role: _records(files[role]) for role in ROLES[:2]}
    tables["qrels"] = _judgments(files["qrels"])
    return judged_queries(tables, {role: str(path) for role, path in files.items()}, notes)


def judged_queries(
    tables: Mapping[str, Records], places: Mapping[str, str], notes: Counter[str]
) -> tuple[list[Row], dict[str, str]]:
    """Return the queries with their judgments, and the documents by id, of three tables.

    tables: by role, numbered records; places: where each is, for messages.
    """
    documents = _texts(tables["corpus"], places["corpus"], "document", notes)
    queries = _texts(tables["queries"], places["queries"], "query", notes)
    judged = _grades(tables["qrels"], places["qrels"])
    named = {document for own in judged.values() for document in own}
    unknown = named - documents.keys()
    # they count as documents that were not found, as in trec_eval
    notes["judged documents that the corpus does not have"] += len(unknown)
    notes["judged queries that have no text, dropped"] += len(judged.keys() - queries.keys())
    notes["queries without a judgment dropped"] += len(queries.keys() - judged.keys())
    rows = [
        Row((text,), (query, *(cell for pair in judged[query].items() for cell in pair)))
        for query, text in queries.items()
        if query in judged
    ]
    notes["queries without a relevant document, which score 0"] += sum(
        not any(int(grade) > 0 for grade in row.labels[2::2]) for row in rows
    )
    if not rows:
        hint = "name the qrels of these queries: they have the ids of a query, a document, a grade"
        message = f"{places['qrels']}: none of its queries is in {places['queries']}."
        raise DataError(message, hint)
    if unknown == named:
        hint = "name the corpus that the qrels were made for"
        message = f"{places['qrels']}: none of its documents is in {places['corpus']}."
        raise DataError(message, hint)
    return rows, documents


def _texts(records: Records, place: str, unit: str, notes: Counter[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    first: dict[str, int] = {}
    for number, record in records:
        name = next((record[key] for key in IDS if record.get(key) is not None), None)
        if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
            hint = "give each line an id in the field _id"
            raise bad(place, number, f"no id of a {unit}: {shorten(record)}.", hint)
        parts = [record.get(TEXT)]
        if unit == "document":
            parts.insert(0, record.get(TITLE) or "")
        for part in parts:
            if not isinstance(part, str):
                hint = f"give each {unit} a text in the field text"
                raise bad(place, number, f"{shorten(part)} where a text was expected.", hint)
        text = " ".join(map(str, parts))
        text = text.strip() if unit == "document" else text
        name = str(name).strip()
        if name in texts:
            if texts[name] != text:
                message = f"the id {name!r} is that of another {unit} in line {first[name]}."
                raise bad(place, number, message, "give each one an id of its own")
            notes[f"repeated lines of {Path(place).name} dropped"] += 1
            continue
        notes[f"{'documents' if unit == 'document' else 'queries'} without text"] += not text
        texts[name], first[name] = text, number
    if not texts:
        raise DataError(f"{place}:1: no {unit} in the file.", "fetch the file again")
    return texts


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the fields of each line: of JSON, or of a table with or without a header."""
    is_json = path.name.removesuffix(".gz").endswith((".jsonl", ".json"))
    header: list[str] = []
    for number, line in lines(path):
        if not line.strip():
            continue
        if is_json:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise bad(path, number, f"not JSON ({str(error)[:80]}).") from None
            if not isinstance(record, dict):
                raise bad(path, number, "not a JSON object.", "give an object with _id and text")
            yield number, record
            continue
        cells = line.split("\t")
        if not header:
            named = cells[0].strip().lower() in IDS
            header = [cell.strip().lower() for cell in cells]
            if named:
                continue
            header = ["_id", TITLE, TEXT] if len(cells) == 3 else ["_id", TEXT]
        if len(cells) != len(header):
            message = f"{len(cells)} columns where {len(header)} were expected."
            raise bad(path, number, message, "write ID<TAB>TEXT, or ID<TAB>TITLE<TAB>TEXT")
        yield number, dict(zip(header, cells, strict=True))


def _judgments(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the judgment of each line: of BEIR, or of TREC with 4 cells."""
    for number, line in lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        cells = [cell.strip() for cell in cells]
        if not any(cells) or (number == 1 and cells[0].lower() in IDS):
            continue
        if len(cells) not in (3, 4) or not all(cells):
            hint = "write QUERY<TAB>DOCUMENT<TAB>GRADE, or QUERY 0 DOCUMENT GRADE as in TREC"
            raise bad(path, number, f"{shorten(line)} is no judgment.", hint)
        yield number, dict(zip(JUDGMENT, (cells[0], *cells[-2:]), strict=True))


def _grades(records: Records, place: str) -> dict[str, dict[str, str]]:
    """Return the grade of each judged document by query."""
    judged: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for number, record in records:
        query, document, given = (record.get(name) for name in JUDGMENT)
        try:
            value = float(str(given))  # on the hub 1.0
        except ValueError:
            value = math.nan
        if not value.is_integer():
            message = f"the grade {shorten(given)} is not a whole number."
            raise bad(place, number, message, "grades are 0, 1, 2, ...")
        grade = str(int(value))
        if judged[str(query)].setdefault(str(document), grade) != grade:
            message = f"document {document!r} has two grades for the query {query!r}."
            raise bad(place, number, message, "keep one of them")
    if not judged:
        raise DataError(f"{place}:1: no judgment in the file.", "fetch the file again")
    return dict(judged)
