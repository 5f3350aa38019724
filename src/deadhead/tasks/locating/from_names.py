"""The splits in a data folder without a manifest, by the names of its files.

A tagged file that names no split is a corpus without splits and counts as train, unless a file
beside it names one. Every file that looks like data but is not read is reported with the reason.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from deadhead.tasks.catalogue import papers_corpus
from deadhead.tasks.task import SPLITS, Task

from .file_format import STS_INPUT, first_cells, guess_format
from .file_name import ALL_SPLITS, NO_SPLIT, UNKNOWN, FileName, task_name
from .retrieval_folder import retrieval_splits
from .split_files import Skipped, SplitFiles, mark_clashes

# fmt: off
NOT_DATA = {
    ".md", ".yaml", ".yml", ".py", ".html", ".pdf", ".zip", ".log", ".npy", ".xml", ".bib",
    ".sh", ".parquet",
}
# fmt: on
INCOMPLETE = "retrieval needs a corpus, queries and qrels beside each other"
BESIDE_SPLITS = "its name says neither train, dev nor test, and files beside it do"


def from_names(root: Path, task: Task | None) -> tuple[list[SplitFiles], list[Skipped]]:
    """Return the splits in a folder, and the files that are not read.

    If a language has several corpora, the papers' own is the default, or else none.
    """
    outer = task.name if task else task_name(root.name) or task_name(root.resolve().parent.name)
    retrieval, used = retrieval_splits(root, task)
    data = (path for path in root.rglob("*") if path.is_file() and not _is_no_data(path))
    paths = sorted(path for path in data if path not in used)
    if task is not None and task.traits.label_unit == "query":
        return retrieval, [Skipped(path, INCOMPLETE) for path in paths]
    names = [FileName(path, path.relative_to(root).parts[:-1], task, outer) for path in paths]
    names = [name for name in names if name.is_data]
    own = task is not None and any(n.folder_task and n.known.name == task.name for n in names)
    reasons = [(name, name.reason_to_skip(own)) for name in names]
    read = [name for name, reason in reasons if not reason]
    # files without a split, in a corpus that has files with one
    with_split = {(n.task, n.lang, n.source) for n in read if n.split != NO_SPLIT}
    repeated = [n for n in read if n.split == NO_SPLIT and (n.task, n.lang, n.source) in with_split]
    skipped = [Skipped(name.path, reason) for name, reason in reasons if reason]
    skipped += [Skipped(name.path, BESIDE_SPLITS) for name in repeated]
    read = [name for name in read if name not in repeated]
    entries = [entry for group in _groups(read) for entry in _entries(group)]
    corpora = defaultdict(set)
    for e in entries:
        corpora[e.task, e.lang].add(e.source)
    chosen = {place: _default(*place, sources) for place, sources in corpora.items()}
    marked = [replace(e, default=chosen[e.task, e.lang] == e.source) for e in entries]
    return [*retrieval, *mark_clashes(marked)], sorted(skipped)


def _default(task: str, lang: str, sources: set[str]) -> str | None:
    """Return the corpus to read if no source is named: the only one, or the papers' own."""
    corpus = papers_corpus(task, lang)
    own = sources if len(sources) == 1 else {s for s in sources if corpus and corpus.is_folder(s)}
    return next(iter(own)) if len(own) == 1 else None


def _is_no_data(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    if STS_INPUT.fullmatch(name.replace(".gs.", ".input.", 1)) and ".gs." in name:
        return True  # the scores of a file that is read
    return name.startswith((".", "README", "LICENSE")) or Path(name).suffix in NOT_DATA


def _groups(names: list[FileName]) -> Iterator[list[FileName]]:
    """Yield the files that belong together: all fields of one split, or one file alone."""
    groups = defaultdict(list)
    for n in names:
        groups[str(n.task), n.lang, n.split, n.source, n.variant].append(n)
    for group in groups.values():
        if group[0].is_sts:  # each has scores of its own
            yield from ([name] for name in group)
            continue
        if group[0].lang or len({n.field for n in group}) == len(group):
            yield group
            continue
        pairs = defaultdict(list)  # pairs of languages, by their stems
        for n in group:
            pairs[n.pair_stem].append(n)
        yield from pairs.values()


def _entries(group: list[FileName]) -> Iterator[SplitFiles]:
    """Yield the entries of a group; a field that is there twice gives two, which clash later."""
    by_field = defaultdict(list)
    for name in group:
        by_field[name.field].append(name.path)
    for i in range(max(map(len, by_field.values()))):
        files = {field: paths[min(i, len(paths) - 1)] for field, paths in by_field.items()}
        yield from _by_language(group[0], files)


def _by_language(name: FileName, files: dict[str, Path]) -> Iterator[SplitFiles]:
    """Yield the entries of some files: one for each language or pair, and for each split."""
    task, path = name.known, next(iter(files.values()))
    sides: dict[str, dict[str, Path]] = {name.lang: files}
    if task.traits.language_pair and "" not in files:
        codes = sorted(files, key=lambda code: (code != "en", code))
        pairs = {f"{a}-{b}": {a: files[a], b: files[b]} for a, b in combinations(codes, 2)}
        sides = pairs or {codes[0]: files}
    elif name.lang == UNKNOWN and "language" in first_cells(path):
        sides = dict.fromkeys(task.languages, files)
    for lang, parts in sides.items():
        form = guess_format(path, task, lang, tuple(files))
        for split in {ALL_SPLITS: SPLITS, NO_SPLIT: ("train",)}.get(name.split, (name.split,)):
            yield SplitFiles(
                task=str(name.task),
                lang=lang,
                split=split,
                source=name.source,
                format=form,
                files=parts,
                partition=split if name.split == ALL_SPLITS else None,
                variant=name.variant,
            )
