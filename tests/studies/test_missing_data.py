"""All data is looked for before the first trial begins, and what is looked for is what trials
read."""

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.errors import DataError
from deadhead.studies import load, plan, run, run_trial
from deadhead.studies.missing_data import missing_data

SMALL = ["data.examples=16", "targets=[en, tr]", "splits=[dev, test]"]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(["remove={lowest: 2}"], marks=SLOW),
        pytest.param(["remove=none", "train=[de, en]", "finetune.scored=none"], marks=SLOW),
        ["remove={lowest: 2}", "rank={split: train, examples: 8}", "finetune.scored=test"],
        [
            "steps=[rank_each, restart, prune, finetune, evaluate]",
            "source=[en, de]",
            "remove={lowest: 3}",
            "rank={examples: 8}",
        ],
        pytest.param(
            [
                "task=xnli",
                "finetune={weights: best, scored: train_task}",
                "remove=none",
                "splits=[test]",
            ],
            marks=SLOW,
        ),
        pytest.param(
            [
                "steps=[finetune, measure, evaluate]",
                "measure=[{entropy: {sentences: 8}}, weights]",
                "axes={seed: [0]}",
            ],
            marks=SLOW,
        ),
    ],
)
def test_the_data_checked_is_the_data_read(changes):
    trial = load("smoke", [*SMALL, *changes]).trials[0]
    record = run_trial(trial)
    assert record.error is None
    read = set()
    for name in record.data:
        task, _, rest = name.rpartition(" ")
        languages, split = rest.split("/")
        read |= {(task or trial.get("task"), language, split) for language in languages.split("+")}
    assert set(trial.reads()) == read


def test_nothing_is_begun_without_data(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path))
    (tmp_path / "pos").mkdir()
    for name in ("en-train", "en-dev", "en-test", "de-test"):
        (tmp_path / "pos" / f"{name}.conllu").write_text("1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    recipe = load("smoke", ["data={}", "targets=[en, de]", "splits=[dev, test]"])
    with pytest.raises(DataError) as got:
        run(recipe, tmp_path / "s")
    reason = f"no data in {tmp_path}. There is: test. (4 trials need it)"
    assert f"pos in de (dev): {reason}" in str(got.value)
    assert "deadhead data check DIR" in str(got.value)
    assert not (tmp_path / "s").exists()
    assert len(missing_data(recipe.trials)) == len(plan(recipe).lacking) == 1
    assert not missing_data(
        load("smoke", ["data={}", "targets=[en, de]"]).trials
    )  # the twin: test alone is there


def test_a_study_that_is_there_is_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "s").mkdir()
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="there is no such folder"):
        run(load("smoke", ["data={}"]), tmp_path / "s")
    assert not list((tmp_path / "s" / "records").iterdir())
    assert not (tmp_path / "s" / "logs").exists()  # no worker was started


def test_a_plan_warns(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", "")
    message = CliRunner().invoke(
        app, ["plan", "smoke", "--set", "data={}", "--data", str(tmp_path / "nowhere")]
    )
    assert message.exit_code == 0
    assert "nowhere: there is no such folder" in message.stdout
    assert message.stdout.count("there is no such folder") == 1  # one reason, one line
    message = CliRunner().invoke(app, ["plan", "contributions/table3", "--data", str(tmp_path)])
    for files in (
        "ja: ner/IOB2Corpus/ja.wikipedia.conll (IOB2Corpus: "
        "https://github.com/Hironsan/IOB2Corpus)",
        "nl: ner/conll2002/ned.train",
    ):  # where each language comes from, and where it goes
        assert f"\n          ner in {files}" in message.stdout
    assert message.stdout.count("deadhead data check DIR lists what it holds") == 1
    assert "Missing" not in CliRunner().invoke(app, ["plan", "smoke"]).stdout


def test_no_hint_is_left_out(tmp_path, monkeypatch):
    """Three tasks in nine languages each: one reason, and a line for each corpus."""
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path))
    missing = plan(load("contributions/correlations"))
    slots = "slots in de, en, es, fr, hi, ja, pt, tr, zh"
    (reason,) = missing.lacking
    assert f"{slots} (train, dev, test): no data in {tmp_path}." in reason
    assert len(missing.hint) == 4
    places = [line.strip() for line in missing.hint[0].splitlines()[1:]]
    assert len(places) == len({*places}) == 8 + 9 + 1
    assert f"{slots}: slots/train_EN.tsv" in places[-1]
