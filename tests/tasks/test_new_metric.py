"""A metric states everything about itself: `evaluate`, tables and pages take the rest from it."""

import json

import by_hand
import numpy as np
import pytest
import small_tasks
from typer.testing import CliRunner

from deadhead import save
from deadhead.cli import app
from deadhead.report.page.content import content
from deadhead.studies.store.records import Record
from deadhead.tasks import METRICS, Metric, points

STUDY = """\
steps: [finetune, evaluate]
fixed: {{model: a/m, task: {task}, source: en, splits: dev}}
axes: {{seed: [0, 1]}}
tables: [{{title: Scores, rows: model, columns: task, mean_over: seed}}]
"""


def complete_rows(gold, predicted, lang):
    """Count for each row whether all its labels are right, and the row."""
    return np.array([(list(g) == list(p), 1) for g, p in zip(gold, predicted, strict=True)], float)


@pytest.fixture
def complete(monkeypatch):
    metric = Metric(
        counts=complete_rows,
        value=lambda sums: sums[..., 0] / sums[..., 1],
        label="complete rows, of ten",
        meaning="a row counts if all its labels are right",
        scale=10.0,
    )
    monkeypatch.setitem(METRICS, "complete", metric)


def output_of(*words):
    result = CliRunner(env={"COLUMNS": "150"}).invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_new_metric_has_its_label_and_scale_everywhere(complete, tmp_path):
    assert points("complete", 0.5) == 5.0
    rows = small_tasks.tag(tmp_path / "cache", n=20).data.rows
    pairs = ("".join(f"{w}\t{t}\n" for w, t in zip(*row, strict=True)) for row in rows)
    (tmp_path / "dev.tsv").write_text("\n".join(pairs))
    task = tmp_path / "mine.yaml"
    kind = "kind: tag\nlabels: [A, B, C]\nmetrics: [complete, accuracy]\n"
    task.write_text(kind + "files: {dev: dev.tsv}\n")
    names = dict(enumerate("ABC"))
    model = small_tasks.tagger(id2label=names, label2id={name: i for i, name in names.items()})
    save(model, tmp_path / "model", small_tasks.tokenizer())
    words = ["evaluate", tmp_path / "model", "--task", task, "--lang", "en", "--device", "cpu"]
    value = json.loads(output_of(*words, "--json"))["intervals"][str(tmp_path / "model")]["en"][
        "value"
    ]
    assert 0 < value < 1
    printed = output_of(*words)
    assert "complete rows, of ten" in printed
    assert f" {10 * value:.2f} [" in printed

    def outcome(trial, labels):
        return Record(trial=trial, state="done", removed=(), metrics={"en/dev/complete": 0.25})

    page = content(by_hand.study(tmp_path, STUDY.format(task=task), outcome))
    assert page["words"]["metrics"]["complete"] == "complete rows, of ten"
    (table,) = page["tables"]
    assert "Complete rows, of ten on the dev set (a row counts if" in str(table)
    assert "2.5" in str(table["cells"])
    assert "25.0" not in str(table["cells"])
