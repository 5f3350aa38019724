"""The benchmark of curves: its rows are what `shrink` gives, and its tables what rows say."""

from __future__ import annotations

import argparse
import copy
import csv
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from deadhead import shrink
from deadhead.errors import DeadheadError
from deadhead.world import MODELS

BENCHMARKS = Path(__file__).parent


@pytest.fixture(scope="module")
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        names = ("shrink_curves", "shrink_curves_report")
        curves, report = (importlib.import_module(name) for name in names)
        yield SimpleNamespace(curves=curves, report=report)


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    return argparse.Namespace(
        task="pos", seed=3, model=str(MODELS / "encoder"), data="world", others="de", device="cpu",
        train=32, scored=8, examples=96, tokens=1024, together=2, choices=None,
        out=tmp_path_factory.mktemp("curves"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(scripts, arguments):
    return scripts.curves.Run(arguments, scripts.curves.task_of(arguments))


def by_hand(run: Any, **options: Any) -> tuple[Any, Any]:
    """What `shrink` itself makes of the whole model, from the same data."""
    model = copy.deepcopy(run.whole)
    data = run.task.calibration(run.seed, run.arguments.examples, run.arguments.tokens)
    return model, shrink(model, data, heads=0.5, seed=run.seed, progress=False, **options)


def test_rows_are_those_of_shrink(scripts, run):
    part = scripts.curves.Part("heads", ("fisher", "reconstruction"), (50,), ("cut", "refit"))
    rows = {scripts.curves.key_of(row): row for row in run.rows([part], set())}
    assert len(rows) == 5
    whole = rows["heads", "none", 0, "whole"]
    model, report = by_hand(run, method="fisher", repair="none")
    cut = rows["heads", "fisher", 50, "cut"]
    assert cut["points"] == pytest.approx(run.task.points(model), abs=1e-3)
    assert cut["loss"] == pytest.approx(report.losses["refitted"], rel=1e-4)
    assert cut["loss"] != whole["loss"]
    assert cut["parameters"] < whole["parameters"]
    model, report = by_hand(run)  # what it keeps by default
    for method, loss in report.tried.items():
        assert rows["heads", method, 50, "refit"]["loss"] == pytest.approx(loss, rel=1e-4)
    auto = [r for r in scripts.report.with_auto([*rows.values()]) if r["choice"] == "auto"]
    assert {row["treatment"] for row in auto} == {"cut", "refit"}
    (refitted,) = (row for row in auto if row["treatment"] == "refit")
    assert refitted["points"] == pytest.approx(run.task.points(model), abs=1e-3)
    assert refitted["loss"] == pytest.approx(report.losses["refitted"], rel=1e-4)


def test_treatments_lose_the_same_heads_and_leave_the_whole_model(scripts, run):
    before = [tensor.clone() for tensor in run.whole.parameters()]
    parts = [
        scripts.curves.Part("heads", ("random",), (50,), ("cut", "refit, one epoch", "retrained")),
        scripts.curves.Part("heads", ("gradient", "gradient, highest"), (50,), ("cut",)),
    ]
    rows = {row["choice"] + ": " + row["treatment"]: row for row in run.rows(parts, set())}
    at_random = [row for name, row in rows.items() if name.startswith("random")]
    assert len({row["heads"] for row in at_random}) == 1
    assert len({row["loss"] for row in at_random}) == 3
    pair = (rows[f"{name}: cut"]["heads"].split() for name in ("gradient", "gradient, highest"))
    for low, high in zip(*pair, strict=True):  # at one half, the two share no head
        assert int(low, 16) ^ int(high, 16) == 0xFF
    assert all(map(torch.equal, before, run.whole.parameters()))


def test_a_run_continues_where_it_was_killed(scripts, run, arguments, monkeypatch):
    """Nothing is trained, chosen or measured twice, and half a line is dropped."""
    curves = scripts.curves
    file = arguments.out / "pos-3.jsonl"
    part = curves.Part("heads", ("random",), (25,), ("cut", "mean"))
    rows = curves.Rows(file, {"device": "cpu", "train": 32})
    first = next(iter(run.rows([part], rows.known)))
    rows.add(first)
    with file.open("a") as half:
        half.write('{"task": "pos", "se')
    [*run.rows([part], {curves.key_of(first)})]
    monkeypatch.setattr(curves.Task, "train_model", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(curves, "choose_by_each", lambda *_, **__: pytest.fail("chosen again"))
    again = curves.Rows(file, {"device": "cpu", "train": 32})
    assert again.known == {curves.key_of(first)}
    for row in curves.Run(arguments, run.task).rows([part], {*again.known}):
        again.add(row)
    known = scripts.report.read([file])
    assert [row["treatment"] for row in known] == ["whole", "cut", "mean"]
    with pytest.raises(DeadheadError, match="other settings"):
        curves.Rows(file, {"device": "cpu", "train": 33})


def test_a_run_of_some_choices_makes_no_others_and_is_completed_later(scripts, run, monkeypatch):
    monkeypatch.setattr(run.arguments, "choices", "random,fisher")
    some = scripts.curves.Choices(run)
    first = some.of("heads", 75, "fisher")
    assert {*some.known["heads 75 %"]} == {"random", "fisher"}
    monkeypatch.setattr(run.arguments, "choices", None)
    later = scripts.curves.Choices(run)
    highest = later.of("heads", 75, "gradient, highest")
    assert {*later.known["heads 75 %"]} == {*scripts.curves.METHODS["heads"], "gradient, highest"}
    assert first == later.of("heads", 75, "fisher")
    assert len(first["heads"]) == len(highest["heads"])


def test_a_run_like_an_earlier_one_makes_the_same_models(scripts, run):
    curves, treatments = scripts.curves, ("cut", "retrained")
    parts = [curves.Part("heads", ("random",), (50, 75), treatments)]
    parts.append(curves.Part("neurons", ("random", "fisher"), (10,), ("mean", "refit, one epoch")))
    keys = [
        (part.units, choice, share, treatment)
        for part in parts
        for choice in part.choices
        for share in part.shares
        for treatment in part.treatments
    ]
    names = ("units", "choice", "share", "treatment")
    rows = [{"task": "pos", "seed": 3, **dict(zip(names, key, strict=True))} for key in keys]
    others = [row("pos", 3, "none", "whole", 90), row("ner", 3, "taylor", "cut", 90)]
    others += [row("pos", 3, "none", "whole, one epoch", 91), row("pos", 4, "kwon", "cut", 90)]
    same = curves.parts_like([*others, *rows], "pos", 3)
    assert [(p.units, *p.choices, *p.shares, t) for p in same for t in p.treatments] == keys
    some = curves.narrowed(SimpleNamespace(shares="50", choices=None), same)
    assert [p for p in some if p.shares] == [p for p in same if p.shares == (50,)] != []
    with pytest.raises(DeadheadError, match=r"no rows of pos, seed 5"):
        curves.parts_like(rows, "pos", 5)
    with pytest.raises(DeadheadError, match=r"absent.jsonl.xz cannot be read: No such file"):
        curves.read([Path("absent.jsonl.xz")])


def test_no_more_models_are_trained_together_than_requested(scripts, run, monkeypatch):
    """The control, the whole model, is one of them."""
    counts: list[int] = []
    monkeypatch.setattr(run.task, "train_one_epoch", lambda models, *_: counts.append(len(models)))
    part = scripts.curves.Part("heads", ("random", "gradient"), (50,), ("mean, one epoch",))
    for together, expected in ((1, [1, 1, 1]), (2, [2, 1]), (4, [3])):
        counts.clear()
        monkeypatch.setattr(run, "together", together)
        rows = [*run.rows([part], set())]
        assert counts == expected
        assert [row.get("together", 1) for row in rows[1:]] == [
            n for n in expected for _ in range(n)
        ]


def row(task: str, seed: int, choice: str, treatment: str, english: float, **more: Any) -> dict:
    facts = {"task": task, "seed": seed, "units": "heads", "choice": choice, "share": 50}
    points = {"en": english, "de": english - 20, "fr": english - 10}
    return {**facts, "treatment": treatment, "points": points, "loss": 1.0, "seconds": 2.0, **more}


def made_rows() -> list[dict]:
    """Two tasks and three seeds: the lowest heads cost 1 point, random ones 4, 5 and 6."""
    rows = []
    for task in ("pos", "sst2"):
        for seed in range(3):
            rows.append(row(task, seed, "none", "whole", 90 + seed, share=0))
            for choice, cost in (("gradient", 1), ("random", 4 + seed), ("gradient, highest", 9)):
                rows.append(row(task, seed, choice, "cut", 90 + seed - cost))
                rows.append(row(task, seed, choice, "refit", 90 + seed - cost / 2))
                rows.append(row(task, seed, choice, "retrained", 90 + seed - 0.5))
    return rows


def test_intervals_and_gaps(scripts):
    report = scripts.report
    known = importlib.import_module("shrink_curves_rows").interval([4.0, 5.0, 6.0])
    assert (known.mean, known.n) == (5.0, 3)
    assert known.half == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # t of 2 degrees of freedom
    table = report.changes(made_rows())
    gap = report.gap(table, "all", report.ENGLISH, 50, "cut", "random")
    assert gap == pytest.approx({0: 3, 1: 4, 2: 5})
    assert report.gap(table, "pos", report.TRANSFER, 50, "retrained", "random") == pytest.approx(
        {0: 0, 1: 0, 2: 0}
    )
    (line,) = (
        line
        for line in report.ranking_table(table).splitlines()
        if "all" in line and "random" in line
    )
    assert line.count("+4.00 ± 2.48 (3)") == 2  # the cut, and the cut minus the training
    assert "| +2.00 ± 1.24 (3) | +0.00 ± 0.00 (3) |" in line


def test_a_seed_without_all_tasks_is_in_no_mean_over_tasks(scripts):
    report = scripts.report
    rows = [r for r in made_rows() if (r["task"], r["seed"], r["choice"]) != ("pos", 2, "random")]
    gap = report.gap(report.changes(rows), "all", report.ENGLISH, 50, "cut", "random")
    assert gap == pytest.approx({0: 3, 1: 4})


def test_pairs_count_the_seeds_in_which_the_refit_is_better(scripts):
    table = scripts.report.paired_table(made_rows())
    (line,) = (line for line in table.splitlines() if line.startswith("| random"))
    assert line.count("-2.00 ± 1.24 (3), 0 of 3 up") == 6  # two tasks and their mean, twice
    assert line.endswith("| 2.0 | 2.0 |")


def test_tables_fill_a_page(scripts, tmp_path):
    report = scripts.report
    begin, end = f"<!-- made by benchmarks/{report.SCRIPT} -->", report.END
    page, file = tmp_path / "page.md", tmp_path / "rows.jsonl"
    facts = {"machine": "a machine"}
    file.write_text("".join(json.dumps(line) + "\n" for line in [facts, *made_rows()]))
    tables = report.blocks(report.read([file]))
    names = ["how much", "refit or train", "heads by share, transfer", "heads by task, 50 %"]
    page.write_text("Before.\n" + "".join(f"{begin.format(n)}\nold\n{end}\n" for n in names))
    report.fill_page(page, tables)
    once = page.read_text()
    report.fill_page(page, tables)
    assert once == page.read_text()
    assert once.startswith("Before.")
    assert "old" not in once
    assert all(tables[name]() in once for name in names)
    with pytest.raises(DeadheadError, match="no place"):
        report.fill_page(file, tables)


def test_tables_are_written_as_csv(scripts, tmp_path):
    """Tables of one kind are below each other, with what distinguishes them in columns."""
    tables = scripts.report.blocks(made_rows())
    files = {file.stem: file for file in scripts.report.write_appendix(tmp_path, tables)}
    rows = list(csv.DictReader(files["shrink-curves-by-share"].open(encoding="utf-8")))
    assert {row["tasks"] for row in rows} == {"mean", "POS", "SST-2"}
    assert {row["points of"] for row in rows} == {"English", "transfer"}
    (row,) = (
        row
        for row in rows
        if [row[name] for name in ("points of", "tasks", "units chosen by", "then")]
        == ["English", "mean", "random", "cut"]
    )
    assert row["50 %"] == "-5.00 ± 2.48 (3)"
    assert len(rows) == sum(
        make().count("\n| ") - 2 for name, make in tables.items() if "by share" in name
    )


def trained_rows() -> list[dict]:
    """One epoch gains 2 points after the refit of random heads, and 1 with the whole model."""
    rows = made_rows()
    for task in ("pos", "sst2"):
        for seed in range(3):
            rows.append(row(task, seed, "none", "whole, one epoch", 91 + seed, share=0))
            refitted = 90 + seed - (4 + seed) / 2
            rows.append(row(task, seed, "random", "refit, one epoch", refitted + 2))
    return rows


def test_one_epoch_is_compared_with_the_refit_and_with_its_control(scripts):
    report = scripts.report
    table = report.changes(trained_rows())
    (line,) = (line for line in report.epoch_table(table).splitlines() if "random" in line)
    gain, distance = "+2.00 ± 0.00 (3)", "-1.50 ± 1.24 (3)"  # -2, -1.5 and -1 below 1 and -1 + 2
    assert line == f"| heads | 50 % | random | {gain} | {gain} |  | {distance} | {distance} |  |"
    (english, *_) = report.control_table(table).splitlines()[2].split(" | ")
    assert english == "| +1.00 ± 0.00 (3)"
    assert "none" not in report.share_table(table, "heads", report.ENGLISH, ["pos"])


def test_the_answer_has_a_count_and_a_time_for_each_line(scripts):
    figure = importlib.import_module("shrink_curves_figure")
    rows = trained_rows()
    chart = figure.answer_chart(scripts.report.changes(rows), rows, scripts.report.ENGLISH)
    (heads,) = chart["hconcat"]  # nothing was measured without neurons
    points = [point for point in heads["data"]["values"] if point["x"]]
    assert {point["line"]: point["n"] for point in points} == {
        "cut, then fine-tuned (2 s)": 3,
        "random, refitted (2 s)": 3,
    }
    assert heads["layer"][-1]["mark"]["type"] == "text"


def test_figures_have_a_row_for_each_treatment(scripts):
    figure = importlib.import_module("shrink_curves_figure")
    table = scripts.report.changes(made_rows())
    chart = figure.ranking_chart(table, scripts.report.ENGLISH)
    titles = [column["title"]["text"] for column in chart["hconcat"]]
    assert titles == ["POS", "SST-2", "mean of the tasks"]
    values = [value for column in chart["hconcat"] for value in column["data"]["values"]]
    assert {v["panel"] for v in values} == {*figure.WITHOUT.values()}
    assert chart["title"]["subtitle"].startswith("each point: mean of 3 seeds;")
    lines = [v for v in values if v["task"] == "all" and v["line"] == "random" and v["x"]]
    cut = next(v for v in lines if v["panel"] == "cut")
    assert cut["y"] == pytest.approx(-5)
    assert (cut["y"] - cut["low"], cut["n"]) == (pytest.approx(2.484, abs=1e-3), 3)
    assert figure.curve_chart(table, "neurons", scripts.report.ENGLISH) is None


def test_cut_and_trained_heads_are_side_by_side_on_one_scale(scripts):
    figure = importlib.import_module("shrink_curves_figure")
    chart = figure.ranking_answer(scripts.report.changes(made_rows()))
    titles = [column["title"]["text"] for column in chart["hconcat"]]
    assert titles == ["cut", "cut and refitted", "cut, then fine-tuned"]
    scales = [
        layer["encoding"]["y"]["scale"] for c in chart["hconcat"] for layer in c["spec"]["layer"]
    ]
    low, high = scales[0]["domain"]
    assert all(scale == scales[0] for scale in scales)
    values = [value for column in chart["hconcat"] for value in column["data"]["values"]]
    assert {value["panel"] for value in values} == {"English", "transfer"}
    assert (low, high) == (min(v["low"] for v in values), max(v["high"] for v in values))
    untrained = [line for line in made_rows() if line["treatment"] != "retrained"]
    assert figure.ranking_answer(scripts.report.changes(untrained)) is None


def test_a_line_is_broken_where_others_were_measured_and_it_was_not(scripts):
    figure = importlib.import_module("shrink_curves_figure")
    shares = {"cut": (10, 50, 90), "refit": (10, 90)}
    rows = [row("pos", seed, "none", "whole", 90, share=0) for seed in range(3)]
    rows += [
        row("pos", seed, "random", treatment, 80, share=share)
        for seed in range(3)
        for treatment, own in shares.items()
        for share in own
    ]
    table = scripts.report.changes(rows)
    for treatment, expected in (("cut", [0, 0, 0, 0]), ("refit", [0, 0, 1])):
        cell = figure.Cell("pos", scripts.report.ENGLISH, "heads", "random", 0, treatment)
        points = figure.line(table, cell, treatment)
        assert [point["x"] for point in points] == [0, *shares[treatment]]
        assert [point["piece"] for point in points] == expected


def test_a_task_that_is_measured_in_part_is_in_no_mean_over_tasks(scripts):
    report = scripts.report
    rows = [*made_rows(), *({**row, "task": "xnli"} for row in made_rows() if row["task"] == "pos")]
    table = report.changes(rows)
    assert report.tasks_of(table, report.ENGLISH) == ["pos", "sst2", "xnli"]
    assert report.averaged(table, report.ENGLISH) == ["pos", "sst2"]
    alone = report.changes([row for row in rows if row["task"] == "xnli"])
    assert report.averaged(alone, report.ENGLISH) == ["xnli"]
