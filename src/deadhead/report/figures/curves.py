"""Curves: what becomes of the score as more heads go, as data grows, or over the k of a search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from deadhead.report.labels import counted_as, joined, score_words
from deadhead.report.tables.grid import BY_LANGUAGE, Unit, Value, alike, repeats
from deadhead.report.tables.published import Published
from deadhead.report.tables.searches import pair_axis, placed, searches
from deadhead.report.tables.values import drops_of, gains_of, scores_of
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, as_names, matches
from deadhead.results.statistics import deviation
from deadhead.strategies.amounts import HEADS, PERCENT
from deadhead.studies.store.records import Record
from deadhead.tasks.languages import code_of, languages

from .charts import Row, Spec, curves

Percents = dict[tuple[Any, Any], float]  # by model and removal
Entry = tuple[Sequence[Cell], str, Sequence[Any], Sequence[float | None]]  # as Unit.add takes it
WHOLE = 10  # parts of a training set
ARMS = {
    "full": "unpruned",
    "lowest": "lowest, best of k",
    "seeds": "other seeds, best of k",
    "random": "random, best of k",
    "highest": "highest, best of k",
}


def place(cell: Cell) -> tuple[str, float | str]:
    """Where a removal stands: the line it belongs to, and how far along it; what cannot be counted stays a label."""
    return (
        ("", 0.0)
        if cell.unpruned
        else _place(
            str(cell.axes.get("strategy", "")),
            cell.axes.get("amount"),
            str(cell.axes.get("remove")),
        )
    )


@cache
def _place(strategy: str, amount: Any, label: str) -> tuple[str, float | str]:
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        return strategy, float(amount)
    words, numbers = re.findall(r"[a-z]+", str(amount)), re.findall(r"\d+", str(amount))
    if strategy == "layers" and words and len(words) == len(numbers):
        return " + ".join(words), float(sum(map(int, numbers)))
    return strategy, label


def curve(study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]) -> Spec | None:
    """One curve figure; None where there is nothing to draw yet."""
    if any("arm" in cell.axes for cell in study.cells):
        return (
            search_curve(study, asked)
            if asked.get("x") in ("k", "remove", "amount")
            else best_curve(study, asked)
        )
    asked = _counted_alike(study, asked)
    percents = _percents(study, records, asked)
    if percents:
        asked = {**asked, "x": "percent"}
    units = _gathered(study, asked, percents)
    if not any(unit.scores for unit in units.values()):
        return None
    return drawn(study, asked, units)


def _counted_alike(study: Study, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """A figure whose lines are not ways to remove shows those that are counted like the first: percent and layers share no axis."""
    lines, where = asked.get("lines"), as_dict(asked.get("where"))
    own = lines in ("remove", "strategy") or not (lines or asked.get("group"))
    found = list(
        dict.fromkeys(str(cell.axes.get("strategy")) for cell in study.cells if not cell.unpruned)
    )
    alike_to_first = [one for one in found if counted_as(one) == counted_as(found[0])]
    if (
        own
        or asked.get("x") not in ("remove", "amount")
        or {"strategy", "remove", "amount"} & {*where}
        or alike_to_first == found
    ):
        return asked
    return {**asked, "where": {**where, "strategy": alike_to_first}}


def _percents(study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]) -> Percents:
    """The percent of heads that each removal takes, for a figure of removals that are counted in several ways; else nothing."""
    where = {
        name: wanted
        for name, wanted in as_dict(asked.get("where")).items()
        if name not in BY_LANGUAGE
    }
    shown = [
        cell
        for cell in study.cells
        if cell.state == "done" and not cell.unpruned and matches(cell, "", where)
    ]
    ways = {counted_as(strategy) for cell in shown if (strategy := str(cell.axes.get("strategy")))}
    if asked.get("x") not in ("remove", "amount") or len(ways) < 2:
        return {}
    found: Percents = {}
    for cell in shown:
        record = records.get(cell.trial)
        heads = record.cost.get("heads before") if record is not None else None
        if counted_as(str(cell.axes.get("strategy"))) == PERCENT.axis:
            found[_removal(cell)] = float(cell.axes["amount"])
        elif record is not None and isinstance(heads, int) and heads:
            found[_removal(cell)] = round(100 * len(record.removed) / heads, 1)
    return found if all(_removal(cell) in found for cell in shown) else {}


def _removal(cell: Cell) -> tuple[Any, Any]:
    return cell.axes.get("model"), cell.axes.get("remove")


def _gathered(
    study: Study, asked: Mapping[str, Any], percents: Percents
) -> dict[tuple[Any, Any, Any], Unit]:
    """Values by panel, line and x; the unpruned model stands at 0 of every line."""
    value = drops_of(study, asked) if asked.get("value") == "drop" else scores_of(asked)
    x, lines, group, where = (
        str(asked.get("x") or "remove"),
        asked.get("lines"),
        str(asked.get("group") or ""),
        as_dict(asked.get("where")),
    )
    over, panels = as_names(asked.get("mean_over")), as_names(asked.get("panels"))
    by_removal = x in ("remove", "amount", "percent")
    own = not lines or lines in ("remove", "strategy")  # the way to remove is the line
    apart = bool(BY_LANGUAGE & {x, str(lines), *panels, *over, *where})
    found: dict[tuple[Any, Any, Any], Unit] = {}
    starts: list[tuple[str, Any, Entry]] = []
    apart_in = (
        x,
        str(lines),
        *panels,
        *where,
        "remove",
        "strategy",
        "amount",
        *(("model",) if percents else ()),
    )
    for cells in alike(study.cells, apart_in):
        first = cells[0]
        wanted = {
            name: one
            for name, one in where.items()
            if not (first.unpruned and name in ("remove", "strategy"))
        }
        strategy, at = place(first) if by_removal else (str(first.axes.get("remove", "")), None)
        at = at if first.unpruned else percents.get(_removal(first), at)
        rows = [_scores(cell, value, group, apart) for cell in cells]
        for (language, kind), scores in zip(
            _shown(first.languages, group, apart), zip(*rows, strict=True), strict=True
        ):
            if not matches(first, language, wanted):
                continue
            line = (
                kind
                if kind and not lines
                else strategy
                if own
                else joined(first.axis(str(lines), language))
            )
            panel = joined(
                *(first.axis(name, language) for name in panels), kind if lines else ""
            )  # classes of languages side by side
            again = repeats(cells, language, over)
            entry = (
                cells,
                language,
                [(first.axes.get("remove"), one) for one in again] if percents else again,
                scores,
            )
            if by_removal and first.unpruned and own and not (kind and not lines):
                starts.append((panel, at, entry))
            else:
                found.setdefault(
                    (panel, line, at if by_removal else _x(first, x, language)), Unit()
                ).add(*entry)
    _begin(found, starts)
    return found


def _scores(cell: Cell, value: Value, group: str, apart: bool) -> Sequence[float | None]:
    """The values of a cell, one for each of `_shown`: of a language, or the mean of a class of them."""
    values = value(cell, None, None)
    if apart and not group:
        return values
    held = dict(zip(cell.languages, values, strict=True))
    if apart:
        return [held[language] for language, _ in _shown(cell.languages, group, apart)]
    means: dict[str, list[float]] = {kind: [] for _, kind in _classes(cell.languages, group)}
    for language, kind in _classes(cell.languages, group):
        if (score := held[language]) is not None:
            means[kind].append(score)
    return [fmean(scores) if scores else None for scores in means.values()]


@cache
def _shown(names: tuple[str, ...], group: str, apart: bool) -> tuple[tuple[str, str], ...]:
    """What is shown of a cell: each language with its class where languages are told apart, else each class once."""
    known = _classes(names, group)
    return (
        known
        if apart
        else tuple((names[0], kind) for kind in dict.fromkeys(kind for _, kind in known))
    )


@cache
def _classes(names: tuple[str, ...], group: str) -> tuple[tuple[str, str], ...]:
    """Languages with their class; those of which nothing is known are left out."""
    known = [(language, class_of(language, group) if group else "") for language in names]
    return tuple((language, kind) for language, kind in known if kind or not group)


def panel_of(cell: Cell, language: str, asked: Mapping[str, Any]) -> str:
    """The panel of a figure that a score belongs to; a cell that names no languages to train on learns its source."""
    named = {name: cell.axis(name, language) for name in as_names(asked.get("panels"))}
    if "train" in named:
        named["train"] = "+".join(cell.train)
    if "train" in named and {"language", "target"} & {
        *named
    }:  # from the languages it learns to the one it is scored in
        named.pop("source", None)
        named = {
            name: label
            for name, label in named.items()
            if name not in ("train", "language", "target")
        }
        return joined(*named.values(), f"{'+'.join(cell.train)} \u2192 {language}")
    if named.get("train") == named.get("source"):
        named.pop("source", None)
    return joined(*named.values())


def _begin(
    found: dict[tuple[Any, Any, Any], Unit], starts: Sequence[tuple[str, Any, Entry]]
) -> None:
    """Every line of a panel begins with the unpruned model; a single point is no line."""
    lines: dict[Any, dict[str, int]] = {}
    for panel, line, _ in found:
        lines.setdefault(panel, {})[line] = lines.get(panel, {}).get(line, 0) + 1
    for panel, at, entry in starts:
        several = [line for line, points in lines.get(panel, {}).items() if points > 1]
        for line in several or lines.get(panel) or [""]:
            found.setdefault((panel, line, at), Unit()).add(*entry)


def _x(cell: Cell, name: str, language: str) -> Any:
    value = cell.axis(name, language)
    if value is None and name in ("parts", "data.parts", "data.target_parts"):
        return float(WHOLE)
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else str(value)
    )


def class_of(language: str, group: str) -> str:
    """The word order, resources or family of a language; empty where nothing is known of it."""
    code = code_of(language)
    return str(getattr(languages()[code], group, "")) if code else ""


def drawn(
    study: Study,
    asked: Mapping[str, Any],
    units: Mapping[tuple[Any, Any, Any], Unit],
    names: Mapping[str, str] | None = None,
) -> Spec:
    """Gathered values as a figure."""
    numbers = all(isinstance(at, float) for _, _, at in units)
    values = sorted(
        _rows(study, asked, units, names or {}), key=lambda row: row["x"] if numbers else 0
    )
    lines = _in_order(study, asked.get("lines"), [row["line"] for row in values])
    if asked.get("group") and not asked.get("lines"):
        lines = list(
            dict.fromkeys(
                class_of(language, str(asked["group"]))
                for language in study.languages
                if class_of(language, str(asked["group"]))
            )
        )
    panels = _in_order(study, asked.get("panels"), [row["panel"] for row in values])
    x = str(asked.get("x") or "remove")
    strategies = _strategies(study, asked)
    across = {
        "percent": PERCENT.axis,
        "parts": "tenths of the training set",
        "data.parts": "tenths of the training set",
        "data.target_parts": "tenths of the target's training set",
    }
    told = (
        counted_as(next(iter(strategies)))
        if x in ("remove", "amount") and len(strategies) == 1
        else across.get(x, x)
    )
    if x in ("remove", "amount") and numbers and {*map(counted_as, strategies)} <= {HEADS.axis}:
        told = HEADS.axis
    y = "relative drop, %" if asked.get("value") == "drop" else _score_name(study, asked)
    order = dict.fromkeys(str(at) for _, _, at in units)
    names_of = {"word_order": "word order", "strategy": "removed", "remove": "removed"}
    legend = names_of.get(
        str(asked.get("lines") or asked.get("group")),
        str(asked.get("lines") or asked.get("group") or ""),
    )
    return curves(
        values,
        str(asked.get("title") or "Curve"),
        x=told,
        y=y,
        numbers=numbers,
        order=list(order),
        lines=lines,
        panels=panels,
        line=legend,
    )


def _strategies(study: Study, asked: Mapping[str, Any]) -> set[str]:
    """The ways to remove heads that a figure shows."""
    only = as_names(as_dict(asked.get("where")).get("strategy"))
    found = {str(cell.axes.get("strategy")) for cell in study.cells if not cell.unpruned}
    return found & {*only} if only else found


def _score_name(study: Study, asked: Mapping[str, Any]) -> str:
    return (
        f"{score_words([str(asked['metric'])] if asked.get('metric') else study.metrics)}, points"
    )


def _rows(
    study: Study,
    asked: Mapping[str, Any],
    units: Mapping[tuple[Any, Any, Any], Unit],
    names: Mapping[str, str],
) -> Iterator[Row]:
    printed = _published(study, asked)
    for (panel, line, at), unit in units.items():
        numbers = unit.numbers()
        theirs = printed(panel, line, unit) if printed else None
        if not numbers and theirs is None:
            continue
        row: Row = {
            "x": at,
            "line": names.get(str(line), str(line)),
            "panel": str(panel),
            "n": len(numbers),
        }
        row["y"] = round(fmean(numbers), 3) if numbers else None
        if len(numbers) > 1:
            apart = deviation(numbers)
            row |= {
                "low": round(fmean(numbers) - apart, 3),
                "high": round(fmean(numbers) + apart, 3),
            }
        if theirs is not None:
            row["published"] = round(theirs, 3)
        if (
            asked.get("x") == "percent"
            and (several := len({cell.axes.get("remove") for cell in unit.cells.values()})) > 1
        ):
            row["removals"] = several
        yield row


def _published(study: Study, asked: Mapping[str, Any]) -> Any:
    """A function that finds the published number of a point, from the first table of the recipe that has some."""
    rows = next(iter(study.published.values()), [])
    if (
        not rows
        or asked.get("value") == "drop"
        or asked.get("group")
        or asked.get("x") == "percent"
    ):
        return None
    lines, panels = asked.get("lines"), as_names(asked.get("panels"))
    axes = [
        str(name)
        for name in (asked.get("x") or "remove", lines, *panels, *as_dict(asked.get("where")))
        if name
    ]
    printed = Published(
        rows, tuple(dict.fromkeys("remove" if name == "amount" else name for name in axes))
    )
    if not {"remove"} <= set(printed.axes) and asked.get("x") in ("remove", "amount"):
        return None

    def of(panel: Any, line: Any, unit: Unit) -> float | None:
        labels = {
            **as_dict(asked.get("where")),
            **({lines: line} if lines else {}),
            **(
                dict(zip(panels, parts, strict=True))
                if len(parts := str(panel).split(", ")) == len(panels)
                else {}
            ),
        }
        known = unit.known()
        return (
            printed.value({**labels, "remove": known["remove"]}, known)
            if "remove" in known
            else None
        )

    return of


def _in_order(study: Study, axis: Any, labels: list[str]) -> list[str]:
    """Labels in the order of the recipe."""
    order = [str(one) for one in study.labels(axis)] if isinstance(axis, str) else []
    return sorted(
        dict.fromkeys(labels),
        key=lambda label: order.index(label) if label in order else len(order),
    )


def search_curve(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """Score against k for each arm, or what it gains over the unpruned model; unpruned seeds are a band: among them k means nothing."""
    gain, where = asked.get("value") == "gain", as_dict(asked.get("where"))
    value = gains_of(study, asked) if gain else scores_of(asked)
    panels, over = as_names(asked.get("panels")), as_names(asked.get("mean_over"))
    place = placed(lambda cell, language: panel_of(cell, language, asked), where, panels)
    units: dict[tuple[Any, Any, Any], Unit] = {}
    for cell in study.cells:
        arm, k, search = str(cell.axes.get("arm")), float(cell.axes.get("k") or 0), _search_of(cell)
        scores = dict(zip(cell.languages, value(cell, None, None), strict=True))
        for language, panel in place(cell):
            if (score := scores[language]) is not None:
                unit = units.get((panel, arm, k))
                if unit is None:
                    unit = units[panel, arm, k] = Unit()
                unit.put(
                    tuple([cell.axis(name, language) for name in over]) if over else search,
                    cell.trial,
                    language,
                    score,
                )
    if not units:
        return None
    values = list(_search_rows(units))
    shown = [
        arm
        for arm in ("lowest", "random", "highest", "unpruned", "unpruned seeds")
        if any(row["line"] == arm for row in values)
    ]
    order = _in_order(study, asked.get("panels"), [row["panel"] for row in values])
    title, y = (
        str(asked.get("title") or "Score by heads removed"),
        f"gain in {_score_name(study, asked)}" if gain else _score_name(study, asked),
    )
    values.sort(key=lambda row: row["x"])
    told = {"x": "heads removed (k)", "y": y, "line": "arm", "band": ("worst seed", "best seed")}
    return curves(
        values,
        title,
        numbers=True,
        order=(),
        lines=shown,
        panels=order,
        grey=("unpruned seeds",),
        **told,  # type: ignore[arg-type]
    )


def _search_of(cell: Cell) -> Any:
    return frozenset(
        (name, value)
        for name, value in cell.axes.items()
        if name not in ("arm", "k", "remove", "strategy", "amount", "draw")
    )


def _search_rows(units: Mapping[tuple[Any, Any, Any], Unit]) -> Iterator[Row]:
    seeds: dict[Any, dict[Any, list[float]]] = {}  # panel -> search -> its unpruned trials
    most = max((k for _, _, k in units), default=0.0)
    for (panel, arm, k), unit in units.items():
        numbers = unit.numbers() if arm != "seeds" else []
        if arm in ("seeds", "full"):
            for search, values in unit.by_repeat().items():
                by_trial: dict[str, list[float]] = {}
                for (trial, _), value in values.items():
                    by_trial.setdefault(trial, []).append(value)
                seeds.setdefault(panel, {}).setdefault(search, []).extend(
                    map(fmean, by_trial.values())
                )
        if arm == "full":
            others = {name for shown, name, _ in units if shown == panel} - {"seeds", "full"}
            yield from (
                {
                    "x": 0.0,
                    "y": round(fmean(numbers), 3),
                    "line": name,
                    "panel": panel,
                    "n": len(numbers),
                }
                for name in sorted(others)
            )
        elif arm != "seeds":
            yield {
                "x": k,
                "y": round(fmean(numbers), 3),
                "line": arm,
                "panel": panel,
                "n": len(numbers),
            }
    for panel, by_search in seeds.items():
        several = [numbers for numbers in by_search.values() if len(numbers) > 1]
        if several:  # from the worst to the best of the unpruned trials of a search: what searches differ in is no luck
            band = {
                "low": fmean(map(min, several)),
                "high": fmean(map(max, several)),
                "y": fmean(map(fmean, several)),
            }
            told = {"line": "unpruned seeds", "panel": panel, "n": sum(map(len, several))}
            yield from (
                {"x": at, **{name: round(value, 3) for name, value in band.items()}, **told}
                for at in (0.0, most)
            )


def best_curve(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """Arms of searches against something else, such as the size of the training set: unpruned, and the best of each arm."""
    x = str(asked.get("x"))
    units: dict[tuple[Any, Any, Any], Unit] = {}
    for pair in searches(study, as_dict(asked.get("where"))):
        group = dict(pair.group)
        at = (
            pair.parts
            if x in ("parts", "data.parts", "data.target_parts")
            else group.get(x, getattr(pair, x, None))
        )
        at = WHOLE if at is None and "parts" in x else at
        label = joined(*(pair_axis(pair, name) for name in as_names(asked.get("panels"))))
        arms = {"full": pair.unpruned} | {
            arm.arm: arm.picks["test"].score for arm in pair.arms.values() if "test" in arm.picks
        }
        for arm, score in arms.items():
            place_of = (label, arm, float(at) if isinstance(at, int | float) else str(at))
            units.setdefault(place_of, Unit()).put(pair.group, arm, pair.target, score)
    return drawn(study, {**asked, "lines": None}, units, ARMS) if units else None
