"""Folders of retrieval, as those of BEIR: a corpus, queries and qrels, each as jsonl or a table."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deadhead.tasks.reading.retrieval import ROLES
from deadhead.tasks.task import TEXT, Task, split_of

from .split_files import SplitFiles

# `corpus.jsonl`, `queries_test.tsv.gz`, `qrels/test.tsv`
PATH = re.compile(r"(corpus|queries|qrels)(?:[._/-]([A-Za-z0-9]+))?\.(?:jsonl|tsv|txt)(?:\.gz)?")


def retrieval_splits(root: Path, task: Task | None) -> tuple[list[SplitFiles], set[Path]]:
    """Return the splits of retrieval in a folder and below it, and the files that belong to them.

    The queries of a split are those of its own file, or else those of all splits.
    """
    if task is not None and task.traits.label_unit != "query":
        return [], set()
    entries = []
    used: set[Path] = set()
    for home in sorted({path.parent for path in root.rglob("corpus*") if path.is_file()}):
        files: dict[str, dict[str, Path]] = defaultdict(dict)
        for role, split, path in _parts_of(home):
            files[role].setdefault(split, path)
        if not all(files[role] for role in ROLES):
            continue
        corpus = next(iter(files["corpus"].values()))
        for split, qrels in files["qrels"].items():
            queries = files["queries"].get(split) or files["queries"].get("")
            if queries is None:
                continue
            entries.append(
                SplitFiles(
                    task="retrieval" if task is None else task.name,
                    lang=TEXT,
                    split=split or "test",
                    source="" if home == root else str(home.relative_to(root)),
                    format="retrieval",
                    files={"corpus": corpus, "queries": queries, "qrels": qrels},
                )
            )
            used |= {corpus, queries, qrels}
    if len({entry.source for entry in entries}) > 1:  # none is read unless it is named
        entries = [replace(entry, default=False) for entry in entries]
    return entries, used


def _parts_of(home: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield role, split and path of each file; the split is empty where none is named."""
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        match = PATH.fullmatch(path.relative_to(home).as_posix())
        if match is not None:
            split = split_of(match[2]) if match[2] else ""
            if split is not None:
                yield match[1], split, path
