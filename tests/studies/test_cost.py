"""The time of a study is estimated for a device, and counts trainings, rankings and scores."""

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.studies import cost, load, plan

GPUS = ("t4", "v100", "a100", "h100", "h200")


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
    monkeypatch.setattr(cost, "gpus", lambda environ: [])


def hours(tmp_path, text):
    (tmp_path / "r.yaml").write_text(text)
    return plan(load(tmp_path / "r.yaml")).gpu_hours["h200"]


def test_hours_on_a_gpu():
    recipe = load("weak-link/table4")
    here = plan(recipe)
    assert tuple(here.gpu_hours) == GPUS
    assert sorted(here.gpu_hours.values(), reverse=True) == list(here.gpu_hours.values())
    # 110 million weights, ten epochs: 28 trainings a task, each three passes, scored after each
    # epoch and at the end
    rows = [(392_702, 9_815), (363_846, 40_430), (104_743, 5_463), (67_349, 872)]
    passes = sum(28 * (30 * train + 11 * dev) for train, dev in rows)
    operations = passes * 80 * 110e6
    assert 3600 * here.gpu_hours["h100"] == pytest.approx(operations / (0.6 * 67e12))
    assert here.seconds == pytest.approx(operations / (2e10 * min(cost.cores(), 8)))


def test_the_command():
    lines = CliRunner().invoke(app, ["plan", "weak-link/table4"]).stdout.splitlines()
    assert "a rough estimate: 6 operations per weight" in lines[2]
    assert all(f" {name} " in lines[3] for name in GPUS)


def test_rankings_and_scores_are_counted(tmp_path):
    fixed = "fixed: {model: x, task: pos, source: en, targets: [en, de], finetune: {scored: none}}"
    scored = hours(tmp_path, f"steps: [evaluate]\n{fixed}\n")
    trained = hours(tmp_path, f"steps: [finetune, evaluate]\n{fixed}\n") - scored
    both = hours(tmp_path, f"steps: [finetune, rank, evaluate]\n{fixed}\n")
    # three epochs on 12,543 sentences; the test sets have 2,077 and 977, English dev 2,002
    assert trained / scored == pytest.approx(9 * 12_543 / (2_077 + 977))
    assert (both - trained - scored) / scored == pytest.approx(3 * 2_002 / (2_077 + 977))
    each = hours(tmp_path, f"steps: [finetune, evaluate]\n{fixed}\n".replace("none", "dev"))
    assert (each - trained - scored) / scored == pytest.approx(3 * 2_002 / (2_077 + 977))


def test_rows_are_those_of_the_language(tmp_path):
    text = (
        "steps: [finetune, evaluate]\nfixed: {model: x, task: %s, source: %s, splits: train, "
        "finetune: {scored: none}, data: {%s}}\n"
    )

    def guess(*words):
        return hours(tmp_path, text % words)

    assert guess("ner", "ur", "") / guess("ner", "de", "") == pytest.approx(289_741 / 12_705)
    most = "examples: 2500000"
    share = guess("wmt14", "en-ru", most) / guess("wmt14", "en-de", most)
    assert share == pytest.approx(1_486_965 / 2_500_000)
    assert guess("pos", "en", "parts: 3") == pytest.approx(0.3 * guess("pos", "en", ""))


def test_rows_are_those_of_the_files(tmp_path, monkeypatch):
    """A corpus without dev lends a tenth of its file; the sides of a translation count once."""
    (tmp_path / "data" / "ner").mkdir(parents=True)
    (tmp_path / "data" / "ner" / "ur-train.txt").write_text("a O\n\n" * 500)
    pairs = tmp_path / "data" / "wmt14" / "en-de"
    pairs.mkdir(parents=True)
    for language in ("en", "de"):
        (pairs / f"train.{language}").write_text("yes\n" * 40)
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "data"))
    text = "steps: [evaluate]\nfixed: {model: x, task: %s, source: %s, splits: %s}\n"
    train, dev = (hours(tmp_path, text % ("ner", "ur", split)) for split in ("train", "dev"))
    assert dev == pytest.approx(train / 10)
    monkeypatch.delenv("DEADHEAD_DATA")
    assert train / hours(tmp_path, text % ("ner", "ur", "train")) == pytest.approx(500 / 289_741)
    english = hours(tmp_path, text % ("wmt14", "en-de", "test"))
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "data"))
    pair = hours(tmp_path, text % ("wmt14", "en-de", "train"))
    assert pair / english == pytest.approx(40 / 3_003)


@pytest.mark.parametrize(
    ("rank", "passes"),
    [
        ("method: entropy", 1),
        ("method: taylor", 3),
        ("method: lrp, rule: alpha-beta", 25),
        ("method: ablation", 72),
        ("method: l0", 15),
        ("method: shapley, permutations: 10", 720),
    ],
)
def test_a_slow_ranking_counts_more(tmp_path, rank, passes):
    text = "steps: [rank]\nfixed: {model: x, task: pos, source: en, rank: {%s}}\n"
    assert hours(tmp_path, text % rank) == pytest.approx(
        passes * hours(tmp_path, text % "method: entropy")
    )
