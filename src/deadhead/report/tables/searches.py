"""Tables of searches: the best of k prunings, by three ways to choose it, beside the unpruned model and the controls.

A search is a pair: from the languages it learns to one it is scored in. Every control has the same budget
of k trials and is shown as its gain over the unpruned model, so that luck can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from deadhead.report.labels import measured_words, sentence
from deadhead.results import Search, Study
from deadhead.results.cells import CHANCE, LANGUAGE, PRUNING, Cell, is_target, matches, plain_text

from .grid import BY_LANGUAGE, Layout, Part, Unit, entry, grid, keys_in_order, whose
from .notes import about_data
from .published import Published, number
from .significance import SEEDS

Statistic = Callable[[Search], float | None]
Items = Iterable[tuple[tuple[Any, ...], Unit]]
METHODS = ("FL", "MD", "SD", "EC")
OF_SOURCES = ("source", "train", "rank.merge", "targets")  # labels in which the methods differ
NOT_ROWS = (*PRUNING, *CHANCE, *LANGUAGE, "setting", "targets", "train", "splits")


def _picked(rule: str, what: str) -> Statistic:
    def of(pair: Search) -> float | None:
        pick = pair.lowest.picks.get(rule) if pair.lowest else None
        return None if pick is None else float(getattr(pick, what))

    return of


def _control(name: str, rule: str = "test") -> Statistic:
    def of(pair: Search) -> float | None:
        pick = pair.arms[name].picks.get(rule) if name in pair.arms else None
        return None if pick is None else pick.gain

    return of


# What is shown of each pair: its number, and the arms it needs.
STATISTICS: Mapping[str, tuple[Statistic, tuple[str, ...]]] = {
    "unpruned": (lambda pair: pair.unpruned, ("full",)),
    "best of k": (_picked("test", "score"), ("full", "lowest")),
    "gain": (_picked("test", "gain"), ("full", "lowest")),
    "k": (_picked("test", "k"), ("full", "lowest")),
    "gain, stop rule": (_picked("stop", "gain"), ("full", "lowest")),
    "k, stop rule": (_picked("stop", "k"), ("full", "lowest")),
    "gain, chosen on dev": (_picked("dev", "gain"), ("full", "lowest")),
    "gain, chosen on source dev": (_picked("source dev", "gain"), ("full", "lowest")),
    "gain of seeds": (_control("seeds"), ("full", "seeds")),
    "gain of random": (_control("random"), ("full", "random")),
    "gain of highest": (_control("highest"), ("full", "highest")),
}

# What a statistic is tested against: the same of unpruned seeds, since the best of several gains though pruning do nothing.
LUCK: Mapping[str, Statistic] = {
    "best of k": lambda pair: _best(pair, "seeds"),
    "gain, chosen on dev": _control("seeds", "dev"),
    "gain, chosen on source dev": _control("seeds", "source dev"),
    "gain, stop rule": _control("seeds", "stop"),
    **dict.fromkeys(("gain", "gain of random", "gain of highest"), _control("seeds")),
}
UNTESTED = "No cell is coloured: the best of k gains a little though pruning do nothing, and this study has no unpruned seeds to test against."


def search_table(study: Study, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One row for each pair, or means over pairs where the recipe asks for fewer rows."""
    varied = [name for name in study.axes if name not in NOT_ROWS]
    rows = [*varied, *(["setting"] if len(study.labels("setting")) > 1 else []), "language"]
    layout = Layout.of(study, asked, rows, ())
    found = searches(study, layout.where)
    if "arm" in layout.axes:
        return _by_arm(study, asked, layout, found)
    run = {cell.axes.get("arm") for cell in study.cells}
    asked_for = [
        "unpruned",
        "best of k",
        "gain",
        *(f"gain of {arm}" for arm in ("seeds", "random", "highest") if arm in run),
    ]
    shown = [
        name for name, (of, _) in STATISTICS.items() if any(of(pair) is not None for pair in found)
    ] or asked_for
    wide = Layout(layout.rows, (*layout.columns, "statistic"), layout.where, layout.mean_over)
    units: dict[tuple[Any, ...], Unit] = {}
    fill = _filler(study, layout, found)
    bases: dict[tuple[Any, ...], Unit] = {}
    for name in shown:
        of, arms = STATISTICS[name]
        for key, unit in fill(arms, of, name == "unpruned"):
            units[*key, name] = unit
        if name in LUCK:
            bases |= {(*key, name): unit for key, unit in fill(("full", "seeds"), LUCK[name], True)}
    file = study.published.get(str(asked.get("published")), [])
    printed = Published(file, (*layout.axes, "arm"))
    theirs = lambda labels, unit: _published(printed, labels, unit)  # noqa: E731
    return _table(study, asked, wide, units, theirs, file, {"statistic": shown}, bases)


def _by_arm(
    study: Study, asked: Mapping[str, Any], layout: Layout, found: Sequence[Search]
) -> dict[str, Any]:
    """Arms as an axis: the score of the unpruned model, and the best score of each arm."""
    units: dict[tuple[Any, ...], Unit] = {}
    at = layout.axes.index("arm")
    fill = _filler(
        study,
        Layout(
            tuple(name for name in layout.axes if name != "arm"), (), layout.where, layout.mean_over
        ),
        found,
    )
    for arm in [
        name
        for name in ("full", "lowest", "seeds", "random", "highest")
        if any(c.axes.get("arm") == name for c in study.cells)
    ]:
        for key, unit in fill(("full", arm), lambda pair, arm=arm: _best(pair, arm), arm == "full"):  # type: ignore[misc]
            units[*key[:at], arm, *key[at:]] = unit
    file = study.published.get(str(asked.get("published")), [])
    printed = Published(file, layout.axes)

    def theirs(labels: Mapping[str, Any], unit: Unit | None) -> float | None:
        rows = [
            row
            for row in printed.of(labels, unit.known() if unit else None)
            if number(row, "delta") != number(row)
        ]
        values = [value for row in rows if (value := number(row)) is not None]
        return sum(values) / len(values) if values else None

    luck = {
        key: units.get((*key[:at], "seeds", *key[at + 1 :]))
        for key in units
        if key[at] not in ("full", "seeds")
    }
    return _table(
        study,
        asked,
        layout,
        units,
        theirs,
        file,
        {},
        {key: unit for key, unit in luck.items() if unit is not None},
    )


def _best(pair: Search, arm: str) -> float | None:
    if arm == "full":
        return pair.unpruned
    held = pair.arms.get(arm)
    pick = held.picks.get("test") if held else None
    return None if pick is None else pick.score


def searches(study: Study, where: Mapping[str, Any]) -> list[Search]:
    """The pairs of a study that are asked for."""
    asked = {
        name: {plain_text(one) for one in (wanted if isinstance(wanted, list) else [wanted])}
        for name, wanted in where.items()
        if name not in PRUNING
    }
    return [pair for pair in study.searches if _fits(pair, asked)]


def targets(cell: Cell) -> Iterator[str]:
    """The languages a search is for, out of those it is scored in."""
    source, train = str(cell.axes.get("source", "")), "+".join(cell.train)
    return (language for language in cell.languages if is_target(source, train, language))


def pair_axis(pair: Search, name: str) -> Any:
    """The label of a pair on an axis."""
    if name in LANGUAGE:
        return pair.target
    group = dict(pair.group)
    return group[name] if name in group else getattr(pair, name, None)


def _fits(pair: Search, where: Mapping[str, set[str]]) -> bool:
    return all(plain_text(pair_axis(pair, name)) in allowed for name, allowed in where.items())


def _filler(
    study: Study, layout: Layout, found: Sequence[Search]
) -> Callable[[Sequence[str], Statistic, bool], Items]:
    """What puts the pairs' numbers, and the states of all trials they need, into the units of a table: by arms and statistic.

    Where a trial or a pair belongs is the same for every statistic of a table, and told once.
    """
    where = {name: wanted for name, wanted in layout.where.items() if name not in PRUNING}
    place = placed(
        lambda cell, language: tuple(cell.axis(name, language) for name in layout.axes),
        where,
        layout.axes,
    )
    expected = [
        (str(cell.axes["arm"]), place(cell), cell) for cell in study.cells if "arm" in cell.axes
    ]
    keys = [
        (pair, tuple(pair_axis(pair, name) for name in layout.axes), str(pair.group))
        for pair in found
    ]

    def fill(arms: Sequence[str], of: Statistic, full: bool) -> Items:
        units: dict[tuple[Any, ...], Unit] = {}
        at: dict[int, list[dict[str, Cell]]] = {}  # the cells of the units of a place
        for arm, several, cell in expected:
            if arm in arms:
                if id(several) not in at:
                    at[id(several)] = [_unit(units, key, full).cells for _, key in several]
                for cells in at[id(several)]:
                    cells[cell.trial] = cell
        for pair, key, group in keys:
            if (value := of(pair)) is not None:
                unit = _unit(units, key, full)
                unit.put(pair.group, group, pair.target, value)
                unit.parts[group, pair.target] = partial(_trials, pair, arms)
        return units.items()

    return fill


def _trials(pair: Search, arms: Sequence[str]) -> list[Part]:
    """The scores that a number of a pair was chosen from, or is the difference of: those of its arms, the unpruned model first."""
    chosen = [pair.arms[name] for name in arms if name in pair.arms]
    some = chosen or list(pair.arms.values())[:1]  # each knows the unpruned model
    full: list[Part] = [
        (arm.trials[0], pair.target, arm.full) for arm in some[:1] if 0 in arm.trials
    ]
    return [
        *(full if "full" in arms else ()),
        *(
            (trial, pair.target, arm.scores.get(k))
            for arm in chosen
            for k, trial in sorted(arm.trials.items())
            if k
        ),
    ]


def _unit(units: dict[tuple[Any, ...], Unit], key: tuple[Any, ...], full: bool) -> Unit:
    if key not in units:
        units[key] = Unit(full=full)
    return units[key]


def placed(
    of: Callable[[Cell, str], Any], where: Mapping[str, Any], axes: Iterable[str]
) -> Callable[[Cell], list[tuple[str, Any]]]:
    """From a cell of a search to its target languages that are asked for, each with its place.

    The place hangs on these axes alone; it is told once for all cells that agree in them, and the list is the same object.
    """
    named = [name for name in dict.fromkeys((*axes, *where)) if name not in BY_LANGUAGE]
    by_parts = "parts" in (*axes, *where)
    held: dict[Any, list[tuple[str, Any]]] = {}

    def place(cell: Cell) -> list[tuple[str, Any]]:
        get = cell.axes.get
        alike = (cell.languages, cell.train, get("source"), *[get(name) for name in named])
        if by_parts:
            alike += tuple(cell.parts(language) for language in cell.languages)
        if alike not in held:
            held[alike] = [
                (language, of(cell, language))
                for language in targets(cell)
                if matches(cell, language, where)
            ]
        return held[alike]

    return place


def _published(printed: Published, labels: Mapping[str, Any], unit: Unit | None) -> float | None:
    also = unit.known() if unit else None

    def of(arm: str, name: str = "value") -> float | None:
        rows = [
            row
            for row in printed.of({**labels, "arm": arm}, also)
            if name == "delta" or number(row, "delta") != number(row)
        ]
        values = [value for row in rows if (value := number(row, name)) is not None]
        return sum(values) / len(values) if values else None

    full, lowest, name = of("full"), of("lowest"), labels["statistic"]
    if name == "unpruned":
        return full
    if name == "best of k":
        return lowest
    if name == "gain":
        return None if full is None or lowest is None else lowest - full
    return of(name.rpartition(" ")[2], "delta") if name.startswith("gain of ") else None


def _table(
    study: Study,
    asked: Mapping[str, Any],
    layout: Layout,
    units: dict[tuple[Any, ...], Unit],
    theirs: Callable[[Mapping[str, Any], Unit | None], float | None],
    file: Sequence[Mapping[str, str]],
    order: Mapping[str, list[Any]],
    bases: Mapping[tuple[Any, ...], Unit] | None = None,
) -> dict[str, Any]:
    rows, columns = (
        keys_in_order(study, names, units, at, order)
        for names, at in ((layout.rows, 0), (layout.columns, len(layout.rows)))
    )

    def cell(row: tuple[Any, ...], column: tuple[Any, ...]) -> dict[str, Any]:
        labels = dict(zip(layout.axes, (*row, *column), strict=True))
        unit = units.get((*row, *column))
        base = (bases or {}).get((*row, *column))
        return entry(unit, theirs(labels, unit) if file else None, base.numbers() if base else None)

    cells = [[cell(row, column) for column in columns] for row in rows]
    most = max((cell.axes.get("k") or 0 for cell in study.cells), default=0)
    metrics = dict.fromkeys(cell.metric for cell in study.cells if cell.metric)
    note = (
        f"{sentence(measured_words(metrics, ('test',)))}, in points. Up to {most} heads are removed; k is the number that does best on the "
        "test set unless said otherwise, so it gains a little even where pruning does nothing: compare it with the gain of as many "
        "unpruned seeds."
    )
    if any(column[-1:] == ("gain, stop rule",) for column in columns):
        note += " Stop rule: heads are removed one by one until the score falls for the first time, and the best k up to there counts."
    short = about_data(
        study,
        list(
            {cell.trial: cell for unit in units.values() for cell in unit.cells.values()}.values()
        ),
    )
    note = " ".join(filter(None, [note, *short, whose(study, file)]))
    made = grid(
        str(asked.get("title") or "Search"), note, layout, rows, columns, cells, file, SEEDS
    )
    return {**made, "test": made["test"] or UNTESTED}


def multi_source_table(study: Study, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Several source languages: the full model, rankings merged by data and by scores, and each ranking by itself."""
    several = len(study.labels("task")) > 1
    layout = Layout.of(study, asked, ("language",), ("task",) if several else ())
    if "arm" not in layout.axes:
        layout = Layout(layout.rows, (*layout.columns, "arm"), layout.where, layout.mean_over)
    units: dict[tuple[Any, ...], Unit] = {}
    best: dict[tuple[Any, ...], float] = {}
    for method, pair, value in _methods(
        [pair for pair in searches(study, layout.where) if pair.setting == "cross-lingual"]
    ):
        key = tuple(method if name == "arm" else pair_axis(pair, name) for name in layout.axes)
        at = (
            key,
            frozenset((name, label) for name, label in pair.group if name not in OF_SOURCES),
            method,
            pair.target,
        )
        best[at] = max(value, best.get(at, value))  # EC keeps the best of all sources
    for (key, group, method, target), value in best.items():
        units.setdefault(key, Unit(full=method == "FL")).put(group, method, target, value)
    for cell in study.cells:  # what is still to come
        for language in targets(cell):
            method = (
                "FL"
                if cell.axes.get("arm") == "full"
                else _method(str(cell.axes.get("source")), str(cell.axes.get("rank.merge", "")))
            )
            key = tuple(
                method if name == "arm" else cell.axis(name, language) for name in layout.axes
            )
            where = {name: wanted for name, wanted in layout.where.items() if name not in PRUNING}
            if cell.setting(language) == "cross-lingual" and matches(cell, language, where):
                unit = units.setdefault(key, Unit(full=method == "FL"))
                unit.cells[cell.trial] = cell
    file = study.published.get(str(asked.get("published")), [])
    printed = Published(file, layout.axes)
    theirs = lambda labels, unit: printed.value(labels, unit.known() if unit else None)  # noqa: E731
    made = _table(study, asked, layout, units, theirs, file, {"arm": list(METHODS)})
    note = "FL: unpruned; MD, SD: one ranking out of those of all sources, by data and by scores; EC: the best of the sources' own rankings."
    return {**made, "note": f"{note} {made['note']}"}


def _method(source: str, merge: str) -> str:
    return "EC" if "+" not in source else merge.upper() if merge in ("md", "sd") else "MD"


def _methods(found: Sequence[Search]) -> Iterator[tuple[str, Search, float]]:
    for pair in found:
        if (full := _best(pair, "full")) is not None:
            yield "FL", pair, full
        if (value := _best(pair, "lowest")) is not None:
            yield _method(pair.source, pair.rank.partition("merge=")[2]), pair, value
