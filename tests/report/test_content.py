"""The content of a page: its shape, its numbers against the records, and studies that are not as they should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import DRAWN, HEADS, SEARCH, done, drawn, searched, study

from deadhead.report.page import records as page_records
from deadhead.report.page.content import content
from deadhead.results import Study
from deadhead.results.records import by_use
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record, scan
from deadhead.studies.trial import Trial
from deadhead.tasks import load_data
from deadhead.tasks.predictions import Predictions

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
PARTS |= {"lead", "order"}


def test_all_parts_as_plain_data(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    assert data.keys() == PARTS
    assert json.loads(json.dumps(data, allow_nan=False)) == data  # no tuple, no NaN, no numpy
    assert (data["format"], data["name"], data["about"]) == (
        1,
        "recipe",
        "half of the heads, at random",
    )
    assert (data["models"], data["versions"], data["data"]) == (
        ["a/model"],
        {"deadhead": "0", "torch": "2"},
        {"en/train": "f00d"},
    )
    assert data["progress"] == {"total": 8, "done": 8, "failed": 0, "left": 0, "running": 0}


def test_a_study_is_read_once_for_the_whole_page(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr("deadhead.results.study.scan", lambda home: read.append(home) or scan(home))
    data = content(study(tmp_path, SEARCH + "claims: [L-seeds]\n", searched))
    assert data["claims"]
    assert len(read) == 1


def test_the_list_of_trials_has_each_once(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    trials = [
        dict(zip(data["trials"]["fields"], row, strict=True)) for row in data["trials"]["rows"]
    ]
    assert len(trials) == len({trial["id"] for trial in trials}) == 8  # 12 cells
    unpruned = [trial for trial in trials if trial["remove"] == "none"]
    assert [trial["draw"] for trial in unpruned] == [None, None]  # nothing was drawn
    pruned = next(
        trial
        for trial in trials
        if (trial["task"], trial["remove"], trial["draw"]) == ("mnli", "random 50 %", 1)
    )
    assert (
        pruned["score"],
        pruned["en"],
        pruned["state"],
        pruned["seconds"],
        pruned["parameters"],
    ) == (72, 72, "done", 7, 600)
    assert data["records"][pruned["id"]]["metrics"]["en/dev/accuracy"] == 0.72


def test_heads_know_what_happened_when_they_went(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    assert data["layout"] == {"encoder": [4, 4]}
    assert data["heads"].keys() == set(HEADS)
    # draws 0, 1, 2 remove heads 0-3, 1-4, 2-5: head 0 went in draw 0 alone, in both tasks
    first = data["heads"][HEADS[0]]
    mnli, sst2 = 70 - (72 + 74) / 2, 88 - (92 + 90) / 2
    assert (first["removed"], first["effect"]["en"]) == (2, pytest.approx((mnli + sst2) / 2))
    assert (
        data["heads"][HEADS[2]]["effect"] == {}
    )  # gone in every draw: there is nothing to compare with
    assert data["heads"][HEADS[7]]["removed"] == 0
    whole = next(
        head_map
        for head_map in data["maps"]
        if head_map["what"] == "removed" and head_map["trial"] is None
    )
    assert whole["scores"] == {HEADS[i]: count for i, count in enumerate((2, 4, 6, 6, 4, 2))}


def test_rankings_are_maps_and_scores_of_heads(tmp_path):
    data = content(study(tmp_path, SEARCH, searched))
    (ranking,) = [head_map for head_map in data["maps"] if head_map["what"] == "ranking"]
    assert ranking["title"] == "Ranking: gradient, en"
    assert ranking["scores"] == {head: float(i) for i, head in enumerate(HEADS)}
    assert data["heads"][HEADS[3]]["rankings"] == {"gradient, en": 3.0}
    assert "scores" not in data["records"][ranking["trial"]]["details"]["ranking"]  # once is enough


def test_measures_are_maps(tmp_path):
    def measured(trial, labels):
        after = {"entropy": {HEADS[1]: 2.0}, "weights": {HEADS[1]: 0.001}}
        stages = {"before": {"entropy": dict.fromkeys(HEADS, 1.5)}, "after": after}
        return replace(drawn(trial, labels), details={"measures": stages})

    data = content(study(tmp_path, DRAWN, measured))
    assert data["heads"][HEADS[1]]["measures"]["entropy"] == {"before": 1.5, "after": 2.0}
    assert data["heads"][HEADS[0]]["measures"] == {"entropy": {"before": 1.5}}
    assert data["heads"][HEADS[1]]["measures"]["weights"] == {"after": 0.001}
    assert {"entropy", "weights"} <= {head_map["what"] for head_map in data["maps"]}


def test_a_measure_of_several_maps_has_each_of_them(tmp_path):
    def measured(trial, labels):
        scores = {"induction": {HEADS[1]: 0.75, HEADS[2]: None}, "first_token": {HEADS[1]: 0.5}}
        return replace(drawn(trial, labels), details={"measures": {"after": {"patterns": scores}}})

    data = content(study(tmp_path, DRAWN, measured))
    assert data["heads"][HEADS[1]]["measures"] == {
        "patterns.first_token": {"after": 0.5},
        "patterns.induction": {"after": 0.75},
    }
    assert HEADS[2] not in data["maps"][0]["scores"]
    titles = {head_map["title"].partition(":")[0] for head_map in data["maps"]}
    assert {
        "Attention to the first token after training",
        "Attention to the token after the earlier copy after training",
    } <= titles
    figures = [figure["title"] for figure in data["figures"]]
    assert "Attention to the token after the earlier copy" in figures


def test_failed_trials_show_their_error(tmp_path):
    def failing(trial, labels):
        return (
            Record(trial=trial, state="failed", error="Traceback\nValueError: <b>boom</b>")
            if trial.get("draw") == 1
            else drawn(trial, labels)
        )

    data = content(study(tmp_path, DRAWN, failing))
    errors = [record["error"] for record in data["records"].values() if record["error"]]
    assert errors == ["Traceback\nValueError: <b>boom</b>"] * 2
    assert (data["progress"]["failed"], data["progress"]["done"]) == (2, 6)
    assert data["findings"][0].startswith("So far, with 6 of 8 trials done: ")


def test_a_study_in_which_nothing_is_done(tmp_path):
    data = content(study(tmp_path, DRAWN, lambda trial, labels: None))
    assert (data["findings"], data["figures"], data["maps"], data["records"], data["heads"]) == (
        [],
        [],
        [],
        {},
        {},
    )
    assert data["progress"]["left"] == 8


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(StudyError, match="is not a study"):
        content(tmp_path)
    with pytest.raises(StudyError, match="no study at"):
        content(tmp_path / "nowhere")


def test_a_damaged_record_is_skipped(tmp_path):
    folder = study(tmp_path, DRAWN, drawn)
    file = sorted((folder / "records").iterdir())[0]
    file.write_text("{")
    data = content(folder)
    assert (data["progress"]["done"], data["progress"]["left"]) == (7, 1)
    assert file.stem not in data["records"]


def test_a_large_study_opens_only_some_records(tmp_path, monkeypatch):
    folder = study(tmp_path, DRAWN, drawn)
    monkeypatch.setattr(page_records, "MOST", 3)
    assert len(content(folder)["records"]) == 3
    monkeypatch.setattr("deadhead.results.study.MOST_RECORDS", 5)
    opened = Study.open(folder).opened
    assert len(opened) == 5
    assert {str(trial.cell.field("remove")) for trial in opened.values()} == {
        "None",
        "{'random': 50}",
    }  # one of each kind first
    assert len(list(by_use(Study.open(folder).cells))) == 8


SAMPLED = """\
steps: [finetune, evaluate]
fixed: {model: world/encoder, task: TASK, data: {root: world}, source: en, targets: [LANG]}
axes: {seed: [0]}
"""


def sampled(
    folder: Path,
    task: str,
    lang: str,
    predict,
    texts: tuple[str, ...] = (),
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """The one record of a study that kept these predictions of test data of the embedded world."""
    data = load_data(task, lang, "test", root="world")
    kept: list[str] = []

    def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record:
        kept.append(trial.id)
        return done(trial, {f"{lang}/test/{data.task.metric}": 0.5})

    home = study(folder, SAMPLED.replace("TASK", task).replace("LANG", lang), outcome)
    numbers = np.array([] if texts else predict(data), dtype=int)
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
    predictions.save(home / "predictions" / kept[0] / "test" / f"{lang}.npz")
    return dict(content(home)["records"][kept[0]])


def test_samples_show_errors_word_by_word(tmp_path):
    def wrong_first(data):
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
    assert [example["errors"] for example in sample[1:]] == [0] * (len(sample) - 1)


def test_samples_of_other_data_show_only_labels(tmp_path):
    sample = sampled(
        tmp_path,
        "pos",
        "de",
        lambda data: [0] * sum(len(row.texts) for row in data.rows),
        fingerprint="another",
    )["sample"]
    assert sample
    assert all(
        "tokens" not in example and example["gold"] is None and example["predicted"]
        for example in sample
    )


def test_samples_are_not_read_through_a_link(tmp_path):
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


def _sample_of_the_one_record(folder: Path):
    (record,) = content(next(folder.rglob("study.json")).parent)["records"].values()
    return record.get("sample")


def test_samples_of_pairs_of_texts(tmp_path):
    data = load_data("xnli", "de", "test", root="world")
    sample = sampled(tmp_path, "xnli", "de", lambda data: [0] * len(data.rows))["sample"]
    by_text = {(row.texts[0], row.texts[1]): row.labels[0] for row in data.rows}
    assert all(by_text[example["text"], example["second"]] == example["gold"] for example in sample)
    assert {example["predicted"] for example in sample} == {data.labels[0]}
    assert [example["errors"] for example in sample] == sorted(
        (example["errors"] for example in sample), reverse=True
    )
