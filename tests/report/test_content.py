"""The content of a page: its shape, its numbers against the records, and damaged studies."""

import json
from dataclasses import replace

import numpy as np
import pytest
from by_hand import DRAWN, HEADS, SEARCH, done, drawn, searched, study

from deadhead.report.page import records as page_records
from deadhead.report.page.content import content
from deadhead.results import Study
from deadhead.results.records import by_use
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record
from deadhead.tasks import load_data
from deadhead.tasks.predictions import Predictions


def test_all_parts_as_plain_data(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    assert json.loads(json.dumps(data, allow_nan=False)) == data  # no tuple, no NaN, no numpy
    assert (data["format"], data["name"]) == (1, "recipe")
    assert data["about"] == "half of the heads, at random"
    assert (data["models"], data["data"]) == (["a/model"], {"en/train": "f00d"})
    assert data["versions"] == {"deadhead": "0", "torch": "2"}
    assert data["progress"] == {"total": 8, "done": 8, "failed": 0, "left": 0, "running": 0}


def test_the_list_of_trials_has_each_once(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    fields, rows = data["trials"]["fields"], data["trials"]["rows"]
    trials = [dict(zip(fields, row, strict=True)) for row in rows]
    assert len(trials) == len({trial["id"] for trial in trials}) == 8  # 12 cells
    unpruned = [trial for trial in trials if trial["remove"] == "none"]
    assert [trial["draw"] for trial in unpruned] == [None, None]  # nothing was drawn
    at = ("mnli", "random 50 %", 1)
    (pruned,) = [one for one in trials if (one["task"], one["remove"], one["draw"]) == at]
    values = [pruned[name] for name in ("score", "en", "state", "seconds", "parameters")]
    assert values == [72, 72, "done", 7, 600]
    assert data["records"][pruned["id"]]["metrics"]["en/dev/accuracy"] == 0.72


def test_heads_know_what_happened_when_they_went(tmp_path):
    data = content(study(tmp_path, DRAWN, drawn))
    heads = data["heads"]
    assert data["layout"] == {"encoder": [4, 4]}
    assert heads.keys() == set(HEADS)
    # draws 0, 1, 2 remove heads 0-3, 1-4, 2-5: head 0 went in draw 0 alone, in both tasks
    mnli, sst2 = 70 - (72 + 74) / 2, 88 - (92 + 90) / 2
    assert heads[HEADS[0]]["effect"]["en"] == pytest.approx((mnli + sst2) / 2)
    assert heads[HEADS[2]]["effect"] == {}  # gone in every draw: nothing to compare with
    (whole,) = [m for m in data["maps"] if m["what"] == "removed" and m["trial"] is None]
    assert whole["scores"] == {HEADS[i]: count for i, count in enumerate((2, 4, 6, 6, 4, 2))}
    assert [heads[head]["removed"] for head in HEADS] == [2, 4, 6, 6, 4, 2, 0, 0]


def test_rankings_are_maps_and_scores_of_heads(tmp_path):
    data = content(study(tmp_path, SEARCH, searched))
    (ranking,) = [head_map for head_map in data["maps"] if head_map["what"] == "ranking"]
    assert ranking["title"] == "Ranking: gradient, en"
    assert ranking["scores"] == {head: float(i) for i, head in enumerate(HEADS)}
    assert data["heads"][HEADS[3]]["rankings"] == {"gradient, en": 3.0}
    assert "scores" not in data["records"][ranking["trial"]]["details"]["ranking"]  # once is enough


def test_measures_are_maps(tmp_path):
    """A measure of several maps, such as `patterns`, has each of them."""

    def measured(trial, labels):
        patterns = {"induction": {HEADS[1]: 0.75, HEADS[2]: None}, "first_token": {HEADS[1]: 0.5}}
        weights = {"entropy": {HEADS[1]: 2.0}, "weights": {HEADS[1]: 0.001}}
        before = {"entropy": dict.fromkeys(HEADS, 1.5)}
        stages = {"before": before, "after": {**weights, "patterns": patterns}}
        return replace(drawn(trial, labels), details={"measures": stages})

    data = content(study(tmp_path, DRAWN, measured))
    assert data["heads"][HEADS[1]]["measures"] == {
        "entropy": {"before": 1.5, "after": 2.0},
        "weights": {"after": 0.001},
        "patterns.first_token": {"after": 0.5},
        "patterns.induction": {"after": 0.75},
    }
    assert data["heads"][HEADS[2]]["measures"] == {"entropy": {"before": 1.5}}
    assert {"entropy", "weights"} <= {head_map["what"] for head_map in data["maps"]}
    name = "Attention to the token after the earlier copy"
    assert f"{name} after training" in {one["title"].partition(":")[0] for one in data["maps"]}
    assert name in [figure["title"] for figure in data["figures"]]


def test_failed_trials_show_their_error(tmp_path):
    error = "Traceback\nValueError: <b>boom</b>"

    def failing(trial, labels):
        failed = Record(trial=trial, state="failed", error=error)
        return failed if trial.get("draw") == 1 else drawn(trial, labels)

    data = content(study(tmp_path, DRAWN, failing))
    assert [r["error"] for r in data["records"].values() if r["error"]] == [error] * 2
    assert (data["progress"]["failed"], data["progress"]["done"]) == (2, 6)
    assert data["findings"][0].startswith("So far, with 6 of 8 trials done: ")


def test_a_study_in_which_nothing_is_done(tmp_path):
    data = content(study(tmp_path, DRAWN, lambda trial, labels: None))
    assert not any(data[part] for part in ("findings", "figures", "maps", "records", "heads"))
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
    trials = Study.open(folder).opened
    assert len(trials) == 5
    removals = {str(trial.cell.field("remove")) for trial in trials.values()}
    assert removals == {"None", "{'random': 50}"}  # one of each kind first
    assert len(list(by_use(Study.open(folder).cells))) == 8


SAMPLED = """\
steps: [finetune, evaluate]
fixed: {model: world/encoder, task: TASK, data: {root: world}, source: en, targets: [LANG]}
axes: {seed: [0]}
"""


def sampled(folder, task, lang, predict, mark=""):
    """The samples of a study that kept these predictions of test data of the small world."""
    data = load_data(task, lang, "test", root="world")
    trials: list[str] = []

    def outcome(trial, labels):
        trials.append(trial.id)
        return done(trial, {f"{lang}/test/{data.task.metric}": 0.5})

    home = study(folder, SAMPLED.replace("TASK", task).replace("LANG", lang), outcome)
    predictions = Predictions(
        task=task,
        kind=data.task.kind,
        lang=lang,
        split="test",
        fingerprint=mark or data.fingerprint,
        labels=data.labels,
        numbers=np.array(predict(data), dtype=int),
        sizes=np.array([len(row.labels) for row in data.rows]),
    )
    predictions.save(home / "predictions" / trials[0] / "test" / f"{lang}.npz")
    return samples(home)


def samples(home):
    (record,) = content(home)["records"].values()
    return list(record["sample"])


def always_the_first(data):
    return [0] * sum(len(row.labels) for row in data.rows)


def test_samples_show_errors_word_by_word(tmp_path):
    def wrong_first(data):
        right = [data.labels.index(label) for row in data.rows for label in row.labels]
        return [(right[0] + 1) % len(data.labels), *right[1:]]

    row = load_data("pos", "ar", "test", root="world").rows[0]
    first, *others = sampled(tmp_path, "pos", "ar", wrong_first)
    assert (first["tokens"], first["gold"]) == (list(row.texts), list(row.labels))
    assert first["predicted"][0] != first["gold"][0]
    assert first["predicted"][1:] == first["gold"][1:]
    assert (first["lang"], first["split"], first["errors"]) == ("ar", "test", 1)
    assert not any(example["errors"] for example in others)


def test_samples_of_other_data_show_only_labels(tmp_path):
    sample = sampled(tmp_path, "pos", "de", always_the_first, "another")
    assert sample
    for example in sample:
        assert "tokens" not in example
        assert (example["gold"], bool(example["predicted"])) == (None, True)


def test_samples_are_not_read_through_a_link(tmp_path):
    assert sampled(tmp_path, "pos", "de", always_the_first)
    (kept,) = (tmp_path / "study" / "predictions").iterdir()
    kept.rename(tmp_path / "outside")
    kept.symlink_to(tmp_path / "outside", target_is_directory=True)
    assert not samples(tmp_path / "study")
