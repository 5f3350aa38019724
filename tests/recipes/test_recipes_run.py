"""Every recipe of the papers runs at its mini scale: a trial of each kind, all with `-m whole`."""

import pytest
from paper_recipes import OF_PAPERS

from deadhead.papers.claims import check
from deadhead.report.page.content import content
from deadhead.studies import load, read, run, run_trial
from deadhead.studies.trial import settle
from few_rows import few_rows

COSTLY = (  # a model is trained from scratch, or the trials are those of other recipes
    *("weak-link/table1", "weak-link/table2", "weak-link/table3"),
    *("weak-link/figure1", "contributions/correlations", "contributions/pooled"),
)


@pytest.fixture(scope="module")
def score_few_rows():
    with few_rows():
        yield


def smallest(trial):
    """The same steps on next to no data."""
    content = dict(trial.content)
    content["data"] = {**content["data"], "examples": 32, "max_length": 48}
    content["finetune"] = {**content["finetune"], "epochs": 1}
    if "pretrain" in trial.steps:
        content["pretrain"] = {**content["pretrain"], "epochs": 1, "vocabulary": 400}
        content["splits"] = ["dev"]
    if {"rank", "rank_each"} & {*trial.steps}:
        content["rank"] = {**content["rank"], "examples": 8}
    if "targets" in content:
        content["targets"] = content["targets"][:2]
        content["splits"] = content["splits"][:1]
    return settle(list(content.pop("steps")), content)


def tried(name):
    """One trial of every kind in a recipe, except the unpruned ones, which add no step."""
    trials = load(name, scale="mini").trials
    pruned = [trial for trial in trials if trial.get("remove")] or trials
    return [
        run_trial(smallest(trial)) for trial in {trial.steps: trial for trial in pruned}.values()
    ]


@pytest.mark.usefixtures("score_few_rows")
@pytest.mark.parametrize(
    "name", [n if n not in COSTLY else pytest.param(n, marks=pytest.mark.slow) for n in OF_PAPERS]
)
def test_one_trial_runs(name):
    for record in tried(name):
        assert record.error is None
        trial = record.trial
        assert bool(record.metrics) == ("evaluate" in trial.steps)
        assert bool(record.removed) == ("prune" in trial.steps)
        assert ("ranking" in record.details) == bool({"rank", "rank_each"} & {*trial.steps})
        assert ("measures" in record.details) == ("measure" in trial.steps)
        if trial.get("finetune").get("first"):
            assert any("@1/" in metric for metric in record.metrics)


@pytest.mark.whole
@pytest.mark.parametrize("name", OF_PAPERS)
def test_the_whole_of_it_runs(name, tmp_path):
    recipe = load(name, scale="mini")
    result = run(recipe, tmp_path / "study", workers=1)
    assert (result.done, result.failed, result.left) == (len(recipe.trials), 0, 0)
    page = content(tmp_path / "study")
    assert len(page["tables"]) >= len(recipe.data.get("tables") or ())
    assert len(page["figures"]) >= len(recipe.data.get("figures") or ())
    assert all(
        cell["state"] in ("done", "none")
        for table in page["tables"]
        for row in table["cells"]
        for cell in row
    )
    verdicts = check(tmp_path / "study") if recipe.data.get("claims") else []
    assert not verdicts or any(verdict.verdict != "not enough data" for verdict in verdicts)
    for trial in recipe.trials:
        if "pretrain" in trial.steps and not trial.get("remove"):  # pruning has something to lose
            assert read(tmp_path / "study", trial.id).metrics["en-de/test/bleu"] > 60
