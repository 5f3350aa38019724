"""Which corpora a study reads, and what of it is not the data of the paper."""

import zlib
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

from deadhead.errors import DataError, DeadheadError
from deadhead.tasks import data_files, task_of
from deadhead.tasks.catalogue import Corpus, papers_corpus
from deadhead.tasks.locating.origin import origin_of
from deadhead.tasks.locating.small_world import is_world

from .missing_data import estimated_rows
from .recipe.load import Recipe
from .steps.data import STARTS, corpora, place_options
from .trial import Trial

NOT_EXACT = (
    "name the paper's data with --data DIR, "
    "or train on what there is with --set fixed.data.exact=false"
)


class Source(NamedTuple):
    """A split that trials read, and where it comes from."""

    task: str
    language: str
    split: str
    trial: Trial  # one that reads it
    places: tuple[str, ...]  # files, or one place on the hub


def sources(trials: Iterable[Trial]) -> list[Source]:
    """All that trials read, without what is missing or bundled."""
    needed: dict[tuple[tuple[str, str, str], Any], Trial] = {}
    for trial in trials:
        for read in trial.reads():
            needed.setdefault((read, place_options(trial)), trial)
    every = []
    for (read, options), trial in sorted(needed.items(), key=itemgetter(0)):
        with suppress(DeadheadError):  # `missing_data` reports it
            places = data_files(*read, **dict(options))
            if not is_world(places[0]):
                every.append(Source(*read, trial, places))
    return every


def papers_of(recipe: Recipe) -> set[str]:
    """The papers that a recipe and those it includes belong to."""
    names = [recipe.name, *(part["name"] for part in recipe.data.get("include") or ())]
    return {name.partition("/")[0] for name in names if "/" in name}


def other_data(every: Iterable[Source], papers: Iterable[str] = ()) -> list[str]:
    """A line for each task whose data is not that of these papers, or of any where it is exact."""
    other: dict[str, dict[str, dict[str, None]]] = {}
    rows: dict[str, list[str]] = defaultdict(list)
    for source in every:
        corpus = papers_corpus(source.task, source.language)
        if corpus is None or not (corpus.paper in papers or source.trial.data.exact):
            continue
        origin, texts = origin_of(source.places[0]), other.setdefault(source.task, {})
        if text := corpus.other_corpus(origin.corpus, origin.release):
            texts.setdefault(text, {})[source.language] = None
        elif (number := _other_rows(source, corpus)) is not None:
            size = f"{number:,} (paper: {corpus.sizes[source.split]:,})"
            rows[source.task].append(f"{source.language}/{source.split} {size}")
    lines = []
    for task, texts in other.items():
        parts = [f"{text} ({', '.join(languages)})" for text, languages in texts.items()]
        parts += [f"other numbers of rows: {', '.join(rows[task])}"] if task in rows else []
        if parts:
            lines.append(f"{task} is not the data of the paper: {'; '.join(parts)}")
    return lines


def _other_rows(source: Source, corpus: Corpus) -> int | None:
    """The rows of a split if they are not those of the paper; None if they are, or on the hub."""
    if source.split not in corpus.sizes or origin_of(source.places[0]).on_hub:
        return None
    has_header = task_of(source.task).traits.label_unit == "row"
    task = None if source.task == source.trial.task else source.task
    try:
        if corpus.has_rows(source.split, sum(map(estimated_rows, source.places)) - has_header):
            return None  # counted without reading them
        [fact] = corpora(source.trial, [source.language], source.split, task).values()
    except (DeadheadError, OSError, EOFError, zlib.error):
        return None  # a damaged file is reported where it is read
    is_own = corpus.has_rows(source.split, fact["rows"], fact.get(STARTS, 0))
    return None if is_own else fact["rows"]


def check_exact(trials: Iterable[Trial]) -> None:
    """Raise an error if trials that are to be exact read other data than the paper."""
    every = sources(trial for trial in trials if trial.data.exact)
    for source in every:
        if papers_corpus(source.task, source.language) is None and not source.trial.data.examples:
            name = f"{source.task} in {source.language}"
            hint = "leave data.exact out, or say the number of training rows with data.examples"
            raise DataError(f"data.exact: no paper has a size of {name}.", hint)
    if lines := other_data(every):
        text = "\n".join(f"  {line}" for line in lines)
        raise DataError(f"other data than the paper's, so nothing was started:\n{text}", NOT_EXACT)
