"""The findings and notes of a page."""

import json
import re
import subprocess
import sys

import pytest
from by_hand import DRAWN, HEADS, MEASURED, SEARCH, done, drawn, searched, study

from deadhead.report.findings import findings
from deadhead.report.page.content import content
from deadhead.results import Study
from deadhead.studies.store.records import Record
from deadhead.tasks import METRICS


def test_a_share_of_heads_is_named_so_everywhere(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    texts = [
        data["tables"],
        data["trials"],
        [figure["spec"] for figure in data["figures"]],
        [head_map["title"] for head_map in data["maps"]],
        data["findings"],
    ]
    text = json.dumps(texts)
    assert "random 50 %" in text
    assert not re.search(r"random 50(?! %)", text)


def test_findings_have_the_numbers(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    # the mean of 80 and 90 is 85; with half of the heads gone it is 79, 82 and 82 by draw
    assert (
        "mean accuracy is 81.0, against 85.0 unpruned (3 masks over 2 tasks, sd 1.7)"
        in data["findings"][0]
    )
    assert any(
        "of 2 numbers are within one point of the published ones" in finding
        for finding in data["findings"]
    )


def test_findings_of_a_search_hold_it_against_luck(tmp_path):
    data = content(study(tmp_path, SEARCH, searched))
    assert data["findings"][0] == (
        "The best of 3 lowest-k prunings beats the best of 3 unpruned seeds in 0 of 1 pairs of "
        "languages (sign test p = 1): no more than luck."
    )
    assert data["findings"][1] == (
        "If the test set chooses k, pruning gains +4.00 points on average over 1 pairs of "
        "languages; the same number of unpruned seeds gains +5.00. "
        "If dev chooses, pruning gains +1.00."
    )


def test_findings_without_a_control_say_so(tmp_path):
    recipe = SEARCH.replace(", controls: [seeds, random]", "")
    assert (
        "of unpruned seeds, this may be luck"
        in findings(Study.open(study(tmp_path, recipe, searched)))[0]
    )


def test_no_torch_and_no_drawing_library_is_loaded(tmp_path):
    folder = study(tmp_path, SEARCH, searched)
    code = f"import sys; from deadhead.report.page.content import content; content({str(folder)!r})"
    text = (
        "; print(sorted({'torch', 'transformers', 'altair', 'vl_convert', 'pandas'} & "
        "set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code + text], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


SEEDS = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en}
axes: {remove: REMOVE, seed: [0, 1]}
"""


def seeded(trial, labels):
    removed = trial.get("remove") or {"random_k": 0}
    return done(
        trial, {"en/test/micro_f1": 0.8 + 0.02 * trial.get("seed") - 0.01 * removed["random_k"]}
    )


def test_findings_take_all_seeds_of_the_unpruned_model(tmp_path):
    recipe = SEEDS.replace("REMOVE", "[none, {random_k: [1, 5]}]")
    (first,) = findings(Study.open(study(tmp_path, recipe, seeded)))
    assert first == (  # 80 and 82 without pruning, 79 and 81, 75 and 77
        "Without a head at random, the mean micro F1 is 80.0, against 81.0 unpruned (2 "
        "repetitions, sd 1.4, t-test p = 0.55). "
        "Without 5 heads at random, it is 76.0."
    )


def test_findings_without_an_unpruned_model(tmp_path):
    recipe = SEEDS.replace("REMOVE", "{random_k: [1, 5]}")
    (first,) = findings(Study.open(study(tmp_path, recipe, seeded)))
    assert (
        "without a head at random the mean is highest, 80.0 (2 repetitions, sd 1.4), and without "
        "5 heads at random lowest, 76.0" in first
    )


def test_changes_of_entropy_do_not_cancel_out(tmp_path):
    """Half of the heads attend more widely, half less: the mean stays, but no head does."""
    recipe = """\
steps: [prune, measure, finetune, measure]
fixed: {model: a/model, task: pos, source: en, remove: {random: 50}, measure: [entropy]}
axes: {draw: [0, 1, 2]}
"""

    def outcome(trial, labels):
        moved = {head: 0.1 * (1 + int(head.split(".")[1])) for head in HEADS}
        after = {h: 2.0 + (m if i % 2 else -m) for i, (h, m) in enumerate(moved.items())}
        stages = {"before": dict.fromkeys(HEADS, 2.0), "first": after, "after": after}
        measures = {stage: {"entropy": values} for stage, values in stages.items()}
        return Record(trial=trial, state="done", details={"measures": measures})

    (sentence,) = findings(Study.open(study(tmp_path, recipe, outcome)))
    assert sentence == (
        "The attention entropy of a head changes by 0.150 nats in one epoch (mean absolute "
        "change, 3 trials); by layers: bottom 0.100, middle 0.200."
    )


def test_findings_report_measures_without_a_comparison(tmp_path):
    recipe = """\
steps: [prune, finetune, measure, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de], remove: {random: 50}, \
measure: [entropy, weights, embeddings]}
axes: {draw: [0, 1]}
"""

    def outcome(trial, labels):
        stages = {
            stage: {
                "entropy": dict.fromkeys(HEADS, value),
                "embeddings": {"silhouette": value / 10},
            }
            for stage, value in MEASURED
        }
        stages["after"] |= {
            "weights": {head: 0.001 * (1 + int(head.split(".")[1])) for head in HEADS}
        }
        scores = {
            "en/test/micro_f1": 0.8,
            "de/test/micro_f1": 0.6,
            "en/test@1/micro_f1": 0.5,
            "de/test@1/micro_f1": 0.3,
        }
        return Record(
            trial=trial,
            state="done",
            removed=HEADS[:2],
            metrics=scores,
            details={"measures": stages},
        )

    data = content(study(tmp_path, recipe, outcome))
    assert data["findings"] == [
        "The attention entropy of a head changes by 0.500 nats in training (mean absolute change, "
        "2 trials); by layers: bottom 0.500, middle 0.500.",
        "The change of weights by training is largest in encoder layer 1 (0.002 in the mean) and "
        "smallest in encoder layer 0 (0.001; 2 trials).",
        "Sentences of different languages are mixed after training: the silhouette of languages "
        "goes from 0.20 to 0.15 (0: mixed, 1: apart; 2 trials).",
    ]
    assert data["tables"][0]["note"].startswith(
        "Micro F1 on the test set (over all words: the share of words labelled right), in points."
    )
    assert {
        head_map["title"].split(":")[0]
        for head_map in data["maps"]
        if head_map["what"] == "weights"
    } == {"Change of weights by training"}


def test_findings_without_a_comparison_are_the_scores(tmp_path):
    recipe = "steps: [finetune, evaluate]\nfixed: {model: a/m, task: pos, source: en}\n"
    recipe += "axes: {targets: [[en, de]], seed: [0, 1]}\n"
    metrics = {"en/test/micro_f1": 0.8, "de/test/micro_f1": 0.6}
    folder = study(tmp_path, recipe, lambda trial, labels: done(trial, metrics))
    assert findings(Study.open(folder)) == [
        "Mean micro F1 on the test set is 70.0 (2 trials), highest in en (80.0) and lowest in de "
        "(60.0)."
    ]


def test_six_layers_are_more_than_ten_percent(tmp_path):
    """What can go at little cost is the most in heads, not the largest number in a recipe."""
    recipe = (
        "steps: [prune, finetune, evaluate]\n"
        "fixed: {model: a/m, task: mnli, source: en, splits: dev}\n"
    )
    recipe += "axes: {remove: [none, {random: 10}, {layers: even 6}]}\n"

    def outcome(trial, labels):
        left = 950 if "random" in (trial.get("remove") or {}) else 750
        return done(
            trial, {"en/dev/accuracy": 0.9}, cost={"parameters": 1000, "parameters after": left}
        )

    assert findings(Study.open(study(tmp_path, recipe, outcome)))[0].startswith(
        "Without all heads of the layers even 6, "
    )


@pytest.mark.parametrize("task", ["mnli", "pos"])
def test_failed_trainings_come_first(tmp_path, task):
    """What a trial with one label for everything lost is no cost of pruning; a bad model's is."""
    recipe = (
        "steps: [prune, finetune, evaluate]\n"
        f"fixed: {{model: a/m, task: {task}, source: en, splits: dev}}\n"
    )
    recipe += "axes: {remove: [none, {random: [10, 20]}, {layers: [top 1, top 2]}]}\n"
    names = ("accuracy", "macro_f1") if task == "mnli" else ("micro_f1", "macro_f1")
    gold, predicted = (
        "aaabbcc",
        {
            "top 1": "aaaaaaa",
            "top 2": "ccccccc",
            "10": "bbbaaaa",
            "none": "aaabbcb",
            "20": "aaabbcc",
        },
    )

    def outcome(trial, labels):
        text = predicted[str(next(iter((trial.get("remove") or {"": "none"}).values())))]
        return done(trial, {f"en/dev/{name}": METRICS[name]([gold], [text]) for name in names})

    first = findings(Study.open(study(tmp_path, recipe, outcome)))[0]
    assert first.startswith(
        "2 of 5 trials predict one label for everything in the language they learnt "
        "(layers top 1, layers top 2)"
    )
