"""The benchmark of rankings: its orders, its areas, its rows, and what it refuses."""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from deadhead import Ranking, discover, load, rank
from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_sites
from deadhead.layout import Head
from deadhead.world import MODELS

BENCHMARKS = Path(__file__).parent
PAGE = BENCHMARKS.parent / "docs" / "extend.md"
PLANTED = Head("encoder", 2, 5)
FINDERS = ("output-norm", "magnitude", "wanda", "hies", "taylor", "gradient", "fisher")


@pytest.fixture(scope="module")
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        names = ("rankings", "rankings_page", "ranking_methods")
        yield {name: importlib.import_module(name) for name in names}


@pytest.fixture(scope="module")
def model():
    return load(MODELS / "encoder").eval()


@pytest.fixture(scope="module")
def batches(model):
    """Texts of different lengths with random labels, padded."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([5, 12, 9, 7])
    ids = torch.randint(5, model.config.vocab_size, (4, 12), generator=draw)
    mask = (torch.arange(12) < lengths[:, None]).long()
    labels = torch.where(mask == 1, ids, -100)
    return [{"input_ids": ids * mask, "attention_mask": mask, "labels": labels}]


def without_weights(model, head):
    """A copy in which nothing goes through a head, and its attention is even."""
    planted = copy.deepcopy(model)
    (site,) = (s for s in find_sites(planted) if s.layer_key == head[:2])
    rows = slice(head.index * site.width, (head.index + 1) * site.width)
    core: Any = site.core
    with torch.no_grad():
        for part in (core.query, core.key, core.value):
            part.weight[rows], part.bias[rows] = 0, 0
        site.out.weight[:, rows] = 0
    return planted


@pytest.mark.parametrize("name", FINDERS)
def test_a_head_without_weights_leaves_first(scripts, model, batches, name):
    rankings = scripts["rankings"]
    method = rankings.method_of(name, 0)
    planted = without_weights(model, PLANTED)
    order = rankings.order_of(name, method(planted, batches), planted)
    before = rankings.order_of(name, method(model, batches), model)
    assert order[0] == PLANTED != before[0]
    assert {*before} == {*order} == {*discover(model)}


def test_osscar_removes_a_head_without_weights_first_in_its_layer(scripts, model, batches):
    scores = [
        scripts["ranking_methods"].osscar(each, batches)
        for each in (model, without_weights(model, PLANTED))
    ]
    assert scores[0][PLANTED] > scores[1][PLANTED] == 0


def test_scores_of_the_formulas(scripts, model, batches):
    """Each against a loop over single heads and tokens."""
    methods = scripts["ranking_methods"].METHODS
    (batch,) = batches
    with torch.no_grad(), scripts["ranking_methods"].captured(model) as run:
        model(**batch)
    real = batch["attention_mask"].bool()
    site = find_sites(model)[1]
    read = run.values[site.layer_key][0][real]
    weight = site.out.weight.detach()
    scores = {name: methods[name](model, batches) for name in ("output-norm", "wanda")}
    for index in site.kept:
        columns = slice(index * site.width, (index + 1) * site.width)
        own, block = read[:, columns], weight[:, columns]
        head = Head("encoder", 1, index)
        lengths = sum(float((block @ row).norm()) for row in own)
        product = sum(float(block[:, n].abs().sum() * own[:, n].norm()) for n in range(site.width))
        assert scores["output-norm"][head] == pytest.approx(lengths, rel=1e-4)
        assert scores["wanda"][head] == pytest.approx(product, rel=1e-4)


def test_scores_of_osscar_are_turns_in_each_layer(scripts, model, batches):
    """The first to leave is the head whose removal leaves the lowest error of a refit."""
    scores = scripts["ranking_methods"].osscar(model, batches)
    for attention in discover(model).attentions:
        assert sorted(scores[head] for head in attention.heads) == [*range(len(attention.heads))]


def test_hies_is_the_mean_of_importance_and_focus(scripts, model, batches):
    methods = scripts["ranking_methods"]
    importance = rank(
        model, batches, "gradient", normalize=False, rescale=False, progress=False
    ).scores
    mixed = methods.hies(model, batches)
    low, high = min(importance.values()), max(importance.values())
    rest = {h: 2 * mixed[h] - (s - low) / (high - low) for h, s in importance.items()}
    assert min(rest.values()) == pytest.approx(0, abs=1e-6)  # 1 - entropy, from 0 to 1
    assert max(rest.values()) == pytest.approx(1, abs=1e-6)
    assert max(rest, key=rest.__getitem__) != max(importance, key=importance.__getitem__)


def test_area_by_hand(scripts):
    area = scripts["rankings_page"].area
    assert area({10: 1.0, 30: 2.0, 50: 3.0, 70: 4.0, 90: 5.0}, 0.5) == pytest.approx(2.5)
    # (20 * 1 + 60 * 4) / 80 - 1; text keys as in a file, in any order
    assert area({"90": 6.0, "10": 1.0, "30": 1.0 + 2 * 0.5}, 1.0) == pytest.approx(2.375)


def test_the_reverse_of_the_reverse(scripts, model):
    rankings = scripts["rankings"]
    scores = rankings.method_of("random", 3)(model, ())
    order = rankings.order_of("random", scores, model)
    other = rankings.order_of("-", {head: -x for head, x in scores.items()}, model)
    assert other == order[::-1] != order
    assert order != rankings.order_of("-", rankings.method_of("random", 4)(model, ()), model)


@pytest.fixture(scope="module")
def small(scripts, tmp_path_factory):
    """Runs the command on the small world, with fewer examples and one seed."""
    rankings, folder = scripts["rankings"], tmp_path_factory.mktemp("rankings")
    few = {"learnt": 200, "epochs": 1, "ranked": 16, "again": 16, "scored": 16}
    bench = replace(rankings.BENCHES["world"], **few)

    def command(*options: str, file: str = "rows.json") -> list[dict[str, Any]]:
        words = ["rankings.py", *options, "--work", str(folder / "work")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(rankings.BENCHES, "world", bench)
            patch.setattr(rankings, "SEEDS", (0,))
            patch.setattr(sys, "argv", [*words, "--json", str(folder / file)])
            rankings.main()
        return json.loads((folder / file).read_text())["rows"]

    command.folder = folder
    return command


@pytest.mark.slow
def test_a_ranking_has_the_same_row_whichever_way_it_is_given(small, scripts, capsys):
    folder = small.folder
    small("random")
    file, code = folder / "drawn-{seed}.json", folder / "mine.py"
    drawn = load(folder / "work" / "seed-0")
    scores = scripts["rankings"].method_of("random", 0)(drawn, ())
    ranking = Ranking(scores=scores, layout=discover(drawn), method="mine")
    ranking.save(folder / "drawn-0.json")
    code.write_text(
        "from deadhead import Ranking\n"
        f"scores = Ranking.load({str(folder / 'drawn-0.json')!r}).scores\n"
        "def rank(model, batches):\n    return {str(head): x for head, x in scores.items()}\n"
        "def turned(model, batches):\n    return {head: -x for head, x in scores.items()}\n"
    )
    rows = small(str(file), f"{code}:rank", f"{code}:turned")
    drawn_row, *same, turned = rows
    assert len(rows) == 4
    forms = ("cut", "reversed", "repaired", "trained", "whole", "model", "seed")
    for row in same:
        assert [row[form] for form in forms] == [drawn_row[form] for form in forms]
    assert turned["cut"] == drawn_row["reversed"] != turned["reversed"] == drawn_row["cut"]
    assert drawn_row["repaired"] != drawn_row["cut"] != drawn_row["reversed"]
    assert "| *random* |" in capsys.readouterr().out
    before = (folder / "rows.json").read_text()
    assert small(str(file)) == rows  # nothing is measured again
    assert (folder / "rows.json").read_text() == before


@pytest.mark.slow
def test_the_example_of_the_docs_runs(small, scripts):
    (code,) = re.findall(r'```python title="mine.py"\n(.*?)```', PAGE.read_text("utf-8"), re.S)
    assert len(code.splitlines()) <= 15
    (small.folder / "docs.py").write_text(code)
    name = f"{small.folder / 'docs.py'}:rank"
    rows = small(name, file="docs.json")
    assert {row["ranking"] for row in rows} == {"random", name}


def test_the_page_comes_from_the_record(scripts, tmp_path, monkeypatch):
    record = BENCHMARKS / "results" / "rankings-mini-mbert.json"
    results = BENCHMARKS.parent / "docs" / "results"
    for page in (results / "rankers.md", results / "appendix" / "rankers-areas.csv"):
        text, copied = page.read_text(encoding="utf-8"), tmp_path / page.name
        copied.write_text(text.replace(" ± ", " + "), encoding="utf-8")
        words = ["rankings_page.py", str(record), "--page", str(copied)]
        monkeypatch.setattr(sys, "argv", words)
        scripts["rankings_page"].main()
        written = copied.read_text(encoding="utf-8")
        if page.suffix == ".csv":
            assert written == text
        else:
            mark = "<!-- made by benchmarks/rankings_page.py -->"
            assert (
                written.partition(mark)[2].partition("<!-- end -->")[0]
                == (text.partition(mark)[2].partition("<!-- end -->")[0])
            )
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"]
    names = {row["ranking"] for row in rows}
    seeds = {(row["ranking"], row["seed"]) for row in rows}
    assert names == {*scripts["rankings"].TABLE}
    assert seeds == {(name, seed) for name in names for seed in scripts["rankings"].SEEDS}
    assert len(rows) == len(seeds)


def refused(call, *words, **options) -> str:
    with pytest.raises(DeadheadError) as problem:
        call(*words, **options)
    return f"{problem.value.message} {problem.value.hint}"


def test_scores_that_are_none(scripts, model):
    order_of = scripts["rankings"].order_of
    scores = dict.fromkeys(map(str, discover(model)), 1.0)
    assert "mine gave no score to head encoder.0.0" in refused(order_of, "mine", {}, model)
    scores["encoder.0.3"] = float("nan")
    assert "the score nan to head encoder.0.3" in refused(order_of, "mine", scores, model)
    scores["encoder.0.3"] = 1.0
    other = scores | {"encoder.9.0": 1.0}
    assert "not asked to score: encoder.9.0" in refused(order_of, "mine", other, model)
    assert "returned list, not scores by head" in refused(order_of, "mine", [1.0] * 40, model)


def test_a_file_of_other_heads(scripts, model, tmp_path):
    other = load(MODELS / "seq2seq")
    scores = dict.fromkeys(discover(other), 1.0)
    Ranking(scores=scores, layout=discover(other), method="x").save(tmp_path / "other.json")
    method = scripts["rankings"].method_of(str(tmp_path / "other.json"), 0)
    assert "the ranking is of a model with" in refused(method, model, ())
    assert "there is no ranking" in refused(scripts["rankings"].method_of, "none.json", 0)


def test_names_of_nothing(scripts, tmp_path):
    method_of = scripts["rankings"].method_of
    assert "'tailor'" in refused(method_of, "tailor", 0)
    assert "there is no" in refused(method_of, "none.py:rank", 0)
    (tmp_path / "mine.py").write_text("def rank(model, batches):\n    return {}\n")
    assert "'rang'" in refused(method_of, f"{tmp_path}/mine.py:rang", 0)


@pytest.mark.slow
def test_other_models_and_examples_are_refused(scripts, tmp_path, monkeypatch):
    rankings = scripts["rankings"]
    bench = rankings.BENCHES["world"]

    def models(bench, model=MODELS / "encoder"):
        return rankings.Models(bench, str(model), "world", tmp_path)

    models(bench)  # the hashes are those of the package
    assert "the benchmark expects" in refused(models, bench, MODELS / "seq2seq")
    assert "there is no" in refused(models, bench, tmp_path)
    text = refused(models, replace(bench, test="0" * 16))
    assert "the test set in world has the hash" in text
    rows = rankings.Rows(tmp_path / "rows.json", "world")
    rows.add({"ranking": "random", "seed": 0, "model": "0" * 16})
    text = refused(rankings.measure, models(bench), "random", 0, {0: "0" * 16})
    assert "its rows are of 0000" in text
    assert "rows of another benchmark" in refused(
        rankings.Rows, tmp_path / "rows.json", "mini-mbert"
    )
