"""The content of a page: its shape, its numbers against the records, and studies that are not as they should be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import DRAWN, HEADS, SEARCH, drawn, searched, study

from deadhead.report.findings.build import findings
from deadhead.report.findings.measures import scored
from deadhead.report.page import records as page_records
from deadhead.report.page.content import content
from deadhead.results import Study
from deadhead.results.records import by_use
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record, scan
from deadhead.studies.trial import Trial
from deadhead.tasks import METRICS, load_data
from deadhead.tasks.predictions import Predictions

MEASURED = (("before", 2.0), ("after", 1.5))  # nats of every head
PARTS = {
    "format",
    "name",
    "about",
    "recipe",
    "models",
    "versions",
    "data",
    "progress",
    "findings",
    "tables",
    "figures",
    "claims",
}
PARTS |= {"words", "opened", "damaged", "layout", "maps", "trials", "records", "heads"}


def test_all_parts_as_plain_data(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, drawn))
    assert made.keys() == PARTS
    assert json.loads(json.dumps(made, allow_nan=False)) == made  # no tuple, no NaN, no numpy
    assert (made["format"], made["name"], made["about"]) == (
        1,
        "recipe",
        "half of the heads, at random",
    )
    assert (made["models"], made["versions"], made["data"]) == (
        ["a/model"],
        {"deadhead": "0", "torch": "2"},
        {"en/train": "f00d"},
    )
    assert made["progress"] == {"total": 8, "done": 8, "failed": 0, "left": 0, "running": 0}


def test_a_study_is_read_once_for_the_whole_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr("deadhead.results.study.scan", lambda home: read.append(home) or scan(home))
    made = content(study(tmp_path, SEARCH + "claims: [L-seeds]\n", searched))
    assert made["claims"]
    assert len(read) == 1


def test_the_list_of_trials_has_each_once(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, drawn))
    trials = [
        dict(zip(made["trials"]["fields"], row, strict=True)) for row in made["trials"]["rows"]
    ]
    assert len(trials) == len({one["id"] for one in trials}) == 8  # 12 cells
    pruned = next(
        one
        for one in trials
        if (one["task"], one["remove"], one["draw"]) == ("mnli", "random 50 %", 1)
    )
    assert (
        pruned["score"],
        pruned["en"],
        pruned["state"],
        pruned["seconds"],
        pruned["parameters"],
    ) == (72, 72, "done", 7, 600)
    assert made["records"][pruned["id"]]["metrics"]["en/dev/accuracy"] == 0.72


def test_heads_know_what_happened_when_they_went(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, drawn))
    assert made["layout"] == {"encoder": [4, 4]}
    assert made["heads"].keys() == set(HEADS)
    # draws 0, 1, 2 remove heads 0-3, 1-4, 2-5: head 0 went in draw 0 alone, in both tasks
    first = made["heads"][HEADS[0]]
    mnli, sst2 = 70 - (72 + 74) / 2, 88 - (92 + 90) / 2
    assert (first["removed"], first["effect"]["en"]) == (2, pytest.approx((mnli + sst2) / 2))
    assert (
        made["heads"][HEADS[2]]["effect"] == {}
    )  # gone in every draw: there is nothing to compare with
    assert made["heads"][HEADS[7]]["removed"] == 0
    whole = next(one for one in made["maps"] if one["what"] == "removed" and one["trial"] is None)
    assert whole["scores"] == {HEADS[i]: count for i, count in enumerate((2, 4, 6, 6, 4, 2))}


def test_rankings_are_maps_and_scores_of_heads(tmp_path: Path) -> None:
    made = content(study(tmp_path, SEARCH, searched))
    (ranking,) = [one for one in made["maps"] if one["what"] == "ranking"]
    assert ranking["title"] == "Ranking: gradient, en"
    assert ranking["scores"] == {head: float(i) for i, head in enumerate(HEADS)}
    assert made["heads"][HEADS[3]]["rankings"] == {"gradient, en": 3.0}
    assert "scores" not in made["records"][ranking["trial"]]["details"]["ranking"]  # once is enough


def test_measures_are_maps(tmp_path: Path) -> None:
    def measured(trial: Trial, labels: Mapping[str, Any]) -> Record:
        after = {"entropy": {HEADS[1]: 2.0}, "weights": {HEADS[1]: 0.001}}
        stages = {"before": {"entropy": dict.fromkeys(HEADS, 1.5)}, "after": after}
        return replace(drawn(trial, labels), details={"measures": stages})

    made = content(study(tmp_path, DRAWN, measured))
    assert made["heads"][HEADS[1]]["measures"]["entropy"] == {"before": 1.5, "after": 2.0}
    assert made["heads"][HEADS[0]]["measures"] == {"entropy": {"before": 1.5}}
    assert made["heads"][HEADS[1]]["measures"]["weights"] == {"after": 0.001}
    assert {"entropy", "weights"} <= {one["what"] for one in made["maps"]}


def test_a_measure_of_several_maps_has_each_of_them(tmp_path: Path) -> None:
    def measured(trial: Trial, labels: Mapping[str, Any]) -> Record:
        scores = {"induction": {HEADS[1]: 0.75, HEADS[2]: None}, "first_token": {HEADS[1]: 0.5}}
        return replace(drawn(trial, labels), details={"measures": {"after": {"patterns": scores}}})

    made = content(study(tmp_path, DRAWN, measured))
    assert made["heads"][HEADS[1]]["measures"] == {
        "patterns.first_token": {"after": 0.5},
        "patterns.induction": {"after": 0.75},
    }
    assert HEADS[2] not in made["maps"][0]["scores"]
    titles = {one["title"].partition(":")[0] for one in made["maps"]}
    assert {
        "Attention to the first token after training",
        "Attention to the token after the earlier copy after training",
    } <= titles
    figures = [figure["title"] for figure in made["figures"]]
    assert "Attention to the token after the earlier copy" in figures


def test_failed_trials_show_their_error(tmp_path: Path) -> None:
    def failing(trial: Trial, labels: Mapping[str, Any]) -> Record:
        return (
            Record(trial=trial, state="failed", error="Traceback\nValueError: <b>boom</b>")
            if trial.get("draw") == 1
            else drawn(trial, labels)
        )

    made = content(study(tmp_path, DRAWN, failing))
    errors = [one["error"] for one in made["records"].values() if one["error"]]
    assert errors == ["Traceback\nValueError: <b>boom</b>"] * 2
    assert (made["progress"]["failed"], made["progress"]["done"]) == (2, 6)
    assert made["findings"][0].startswith("So far, with 6 of 8 trials done: ")


def test_a_study_in_which_nothing_is_done(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, lambda trial, labels: None))
    assert (made["findings"], made["figures"], made["maps"], made["records"], made["heads"]) == (
        [],
        [],
        [],
        {},
        {},
    )
    assert made["progress"]["left"] == 8


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is not a study"):
        content(tmp_path)
    with pytest.raises(StudyError, match="no study at"):
        content(tmp_path / "nowhere")


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    made = study(tmp_path, DRAWN, drawn)
    file = sorted((made / "records").iterdir())[0]
    file.write_text("{")
    found = content(made)
    assert (found["progress"]["done"], found["progress"]["left"]) == (7, 1)
    assert file.stem not in found["records"]


def test_a_large_study_opens_only_some_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study(tmp_path, DRAWN, drawn)
    monkeypatch.setattr(page_records, "MOST", 3)
    assert len(content(made)["records"]) == 3
    monkeypatch.setattr("deadhead.results.study.MOST_RECORDS", 5)
    found = Study.open(made).records
    assert len(found) == 5
    assert {str(record.trial.get("remove")) for record in found.values()} == {
        "None",
        "{'random': 50}",
    }  # one of each kind first
    assert len(list(by_use(Study.open(made).cells))) == 8


SAMPLED = """\
steps: [finetune, evaluate]
fixed: {model: world/encoder, task: TASK, data: {root: world}, source: en, targets: [LANG]}
axes: {seed: [0]}
"""


def sampled(
    folder: Path,
    task: str,
    lang: str,
    said: Any,
    texts: tuple[str, ...] = (),
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """The one record of a study that kept these predictions of test data of the embedded world."""
    data = load_data(task, lang, "test", root="world")
    kept: list[str] = []

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        kept.append(trial.id)
        return Record(
            trial=trial, state="done", removed=(), metrics={f"{lang}/test/{data.task.metric}": 0.5}
        )

    made = study(folder, SAMPLED.replace("TASK", task).replace("LANG", lang), outcome)
    numbers = np.array([] if texts else said(data), dtype=int)
    sizes = np.array([len(row.texts) if data.task.kind == "tag" else 1 for row in data.rows])
    mark = fingerprint or data.fingerprint
    predictions = Predictions(
        task=task,
        kind=data.task.kind,
        lang=lang,
        split="test",
        fingerprint=mark,
        labels=data.labels,
        numbers=numbers,
        sizes=sizes,
        texts=texts,
    )
    predictions.save(made / "predictions" / kept[0] / "test" / f"{lang}.npz")
    return dict(content(made)["records"][kept[0]])


def test_samples_show_errors_word_by_word(tmp_path: Path) -> None:
    def wrong_first(data: Any) -> list[int]:
        right = [data.labels.index(label) for row in data.rows for label in row.labels]
        return [(right[0] + 1) % len(data.labels), *right[1:]]

    data = load_data("pos", "ar", "test", root="world")
    sample = sampled(tmp_path, "pos", "ar", wrong_first)["sample"]
    assert sample[0]["tokens"] == list(data.rows[0].texts)
    assert sample[0]["gold"] == list(data.rows[0].labels)
    assert [g == p for g, p in zip(sample[0]["gold"], sample[0]["predicted"], strict=True)] == [
        False
    ] + [True] * (len(data.rows[0].texts) - 1)
    assert (sample[0]["lang"], sample[0]["split"], sample[0]["errors"]) == ("ar", "test", 1)
    assert [one["errors"] for one in sample[1:]] == [0] * (len(sample) - 1)


def test_samples_of_other_data_show_only_labels(tmp_path: Path) -> None:
    sample = sampled(
        tmp_path,
        "pos",
        "de",
        lambda data: [0] * sum(len(row.texts) for row in data.rows),
        fingerprint="another",
    )["sample"]
    assert sample
    assert all("tokens" not in one and one["gold"] is None and one["predicted"] for one in sample)


def test_samples_are_not_read_through_a_link(tmp_path: Path) -> None:
    sampled(
        tmp_path / "theirs",
        "pos",
        "de",
        lambda data: [0] * sum(len(row.texts) for row in data.rows),
    )
    assert _sample_of_the_one_record(tmp_path / "theirs")
    predictions = next((tmp_path / "theirs").rglob("predictions"))
    (kept,) = predictions.iterdir()
    kept.rename(tmp_path / "outside")
    kept.symlink_to(tmp_path / "outside", target_is_directory=True)
    assert not _sample_of_the_one_record(tmp_path / "theirs")


def _sample_of_the_one_record(folder: Path) -> Any:
    (record,) = content(next(folder.rglob("study.json")).parent)["records"].values()
    return record.get("sample")


def test_samples_of_pairs_of_texts(tmp_path: Path) -> None:
    data = load_data("xnli", "de", "test", root="world")
    sample = sampled(tmp_path, "xnli", "de", lambda data: [0] * len(data.rows))["sample"]
    by_text = {(row.texts[0], row.texts[1]): row.labels[0] for row in data.rows}
    assert all(by_text[one["text"], one["second"]] == one["gold"] for one in sample)
    assert {one["predicted"] for one in sample} == {data.labels[0]}
    assert [one["errors"] for one in sample] == sorted(
        (one["errors"] for one in sample), reverse=True
    )


def test_a_share_of_heads_is_named_so_everywhere(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, drawn))
    shown = [
        made["tables"],
        made["trials"],
        [one["spec"] for one in made["figures"]],
        [one["title"] for one in made["maps"]],
        made["findings"],
    ]
    text = json.dumps(shown)
    assert "random 50 %" in text
    assert not re.search(r"random 50(?! %)", text)


def test_findings_have_the_numbers(tmp_path: Path) -> None:
    made = content(study(tmp_path, DRAWN, drawn))
    # the mean of 80 and 90 is 85; with half of the heads gone it is 79, 82 and 82 by draw
    assert (
        "mean accuracy is 81.0, against 85.0 unpruned (3 masks over 2 tasks, sd 1.7)"
        in made["findings"][0]
    )
    assert any(
        "of 3 numbers are within one point of the published ones" in one for one in made["findings"]
    )


def test_findings_of_a_search_hold_it_against_luck(tmp_path: Path) -> None:
    made = content(study(tmp_path, SEARCH, searched))
    assert made["findings"][0] == (
        "The best of 3 lowest-k prunings beats the best of 3 unpruned seeds in 0 of 2 pairs of languages (sign test p = 0.5): no more than luck."
    )
    assert made["findings"][1] == (
        "If the test set chooses k, pruning gains +4.00 points on average over 2 pairs; "
        "the same number of unpruned seeds gains +5.00. "
        "If dev chooses, pruning gains +1.00."
    )


def test_findings_without_a_control_say_so(tmp_path: Path) -> None:
    recipe = SEARCH.replace(", controls: [seeds, random]", "")
    assert (
        "of unpruned seeds, this may be luck"
        in findings(Study.open(study(tmp_path, recipe, searched)))[0]
    )


def test_names_stay_as_they_are(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    made = content(
        study(
            tmp_path,
            DRAWN.replace("a/model", f'"{hostile}"').replace(
                "title: Scores", f'title: "{hostile}"'
            ),
            drawn,
        )
    )
    assert made["models"] == [hostile]
    assert made["tables"][0]["title"] == hostile
    assert made["tables"][0]["id"] == "table-1-script-alert-1-script"


def test_no_torch_and_no_drawing_library_is_loaded(tmp_path: Path) -> None:
    made = study(tmp_path, SEARCH, searched)
    code = f"import sys; from deadhead.report.page.content import content; content({str(made)!r})"
    told = "; print(sorted({'torch', 'transformers', 'altair', 'vl_convert', 'pandas'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code + told], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


SEEDS = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en}
axes: {remove: REMOVE, seed: [0, 1]}
"""


def seeded(trial: Trial, labels: Mapping[str, Any]) -> Record:
    gone = trial.get("remove") or {"random_k": 0}
    return Record(
        trial=trial,
        state="done",
        removed=(),
        metrics={"en/test/micro_f1": 0.8 + 0.02 * trial.get("seed") - 0.01 * gone["random_k"]},
    )


def test_findings_take_all_seeds_of_the_unpruned_model(tmp_path: Path) -> None:
    recipe = SEEDS.replace("REMOVE", "[none, {random_k: [1, 5]}]")
    (first,) = findings(Study.open(study(tmp_path, recipe, seeded)))
    assert first == (  # 80 and 82 without pruning, 79 and 81, 75 and 77
        "Without a head at random mean micro F1 is 80.0, against 81.0 unpruned (2 repetitions, sd 1.4, t-test p = 0.55). "
        "Without 5 heads at random it is 76.0."
    )


def test_findings_without_an_unpruned_model(tmp_path: Path) -> None:
    recipe = SEEDS.replace("REMOVE", "{random_k: [1, 5]}")
    (first,) = findings(Study.open(study(tmp_path, recipe, seeded)))
    assert (
        "without a head at random the mean is highest, 80.0 (2 repetitions, sd 1.4), and without 5 heads at random lowest, 76.0"
        in first
    )


def test_findings_report_measures_without_a_comparison(tmp_path: Path) -> None:
    recipe = """\
steps: [prune, finetune, measure, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de], remove: {random: 50}, measure: [entropy, weights, embeddings]}
axes: {draw: [0, 1]}
"""

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
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

    made = content(study(tmp_path, recipe, outcome))
    assert made["findings"] == [
        "Training narrows the attention of heads: mean entropy goes from 2.00 to 1.50 nats (2 trials).",
        "The change of weights by training is largest in encoder layer 1 (0.002 in the mean) and "
        "smallest in encoder layer 0 (0.001; 2 trials).",
        "Sentences of different languages are mixed after training: the silhouette of languages goes "
        "from 0.20 to 0.15 (0: mixed, 1: apart; 2 trials).",
    ]
    assert made["tables"][0]["note"].startswith(
        "Micro F1 on the test set (over all words, which is the share of words labelled right), in points."
    )
    whole = Study.open(tmp_path / "study")
    assert scored(whole) == [
        "Mean micro F1 on the test set is 70.0 (2 trials), highest in en (80.0) and lowest in de (60.0).",
        "After one epoch the mean is 40.0, after all epochs 70.0.",
    ]
    assert {one["title"].split(":")[0] for one in made["maps"] if one["what"] == "weights"} == {
        "Change of weights by training"
    }


def test_the_page_counts_the_opened_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study(tmp_path, DRAWN, drawn)
    assert content(made)["opened"] == {"records": 8, "of": 8}
    monkeypatch.setattr("deadhead.results.study.MOST_RECORDS", 3)
    assert content(made)["opened"] == {"records": 3, "of": 8}


def test_strings_and_triples_are_what_is_kept(tmp_path: Path) -> None:
    """Their numbers are of heads kept, so they are no names of what goes."""
    recipe = "steps: [prune, finetune, evaluate]\nfixed: {model: a/m, task: mnli, source: en, splits: dev}\n"
    recipe += "axes: {remove: [none, {per_block: [2/1/1, 1/1/1]}]}\n"
    scores = {"none": 0.9, "2/1/1": 0.895, "1/1/1": 0.5}

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        kept = (trial.get("remove") or {"per_block": "none"})["per_block"]
        return Record(
            trial=trial, state="done", removed=(), metrics={"en/dev/accuracy": scores[kept]}
        )

    said = " ".join(findings(Study.open(study(tmp_path, recipe, outcome))))
    assert "Without all heads but 2/1/1 (by block) mean accuracy is 89.5" in said
    assert "Without all heads but 1/1/1 (by block) it is 50.0" in said


def test_six_layers_are_more_than_ten_percent(tmp_path: Path) -> None:
    """What can go at little cost is the most in heads, not the largest number in a recipe."""
    recipe = "steps: [prune, finetune, evaluate]\nfixed: {model: a/m, task: mnli, source: en, splits: dev}\n"
    recipe += "axes: {remove: [none, {random: 10}, {layers: even 6}]}\n"

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        left = 950 if "random" in (trial.get("remove") or {}) else 750
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={"en/dev/accuracy": 0.9},
            cost={"parameters": 1000, "parameters after": left},
        )

    assert findings(Study.open(study(tmp_path, recipe, outcome)))[0].startswith(
        "Without all heads of the layers even 6 "
    )


@pytest.mark.parametrize("task", ["mnli", "pos"])
def test_failed_trainings_come_first(tmp_path: Path, task: str) -> None:
    """One label for everything: what such a trial lost is no cost of pruning. A model that is only bad is not meant."""
    recipe = f"steps: [prune, finetune, evaluate]\nfixed: {{model: a/m, task: {task}, source: en, splits: dev}}\n"
    recipe += "axes: {remove: [none, {random: [10, 20]}, {layers: [top 1, top 2]}]}\n"
    names = ("accuracy", "macro_f1") if task == "mnli" else ("micro_f1", "macro_f1")
    gold, given = (
        "aaabbcc",
        {
            "top 1": "aaaaaaa",
            "top 2": "ccccccc",
            "10": "bbbaaaa",
            "none": "aaabbcb",
            "20": "aaabbcc",
        },
    )

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        told = given[str(next(iter((trial.get("remove") or {"": "none"}).values())))]
        return Record(
            trial=trial,
            state="done",
            removed=(),
            metrics={f"en/dev/{name}": METRICS[name]([gold], [told]) for name in names},
        )

    first = findings(Study.open(study(tmp_path, recipe, outcome)))[0]
    assert first.startswith(
        "2 of 5 trials predict one label for everything in the language they learnt "
        "(layers top 1, layers top 2)"
    )
