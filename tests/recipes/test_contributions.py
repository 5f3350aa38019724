"""The contributions recipes have the trials of the paper's tables, counted by hand."""

from __future__ import annotations

import pytest
from paper_recipes import counted

from deadhead.results.cells import setting
from deadhead.studies import load
from deadhead.studies.trial import Trial

NINE = ("en", "de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")
FIVE = ("en", "de", "ar", "he", "zh")
MBERT, XLMR = "bert-base-multilingual-cased", "xlm-roberta-base"


def learnt(trial: Trial) -> tuple[str, ...]:
    languages = trial.get("train", trial.get("source"))
    return (languages,) if isinstance(languages, str) else tuple(languages)


def alone(name: str) -> list[Trial]:
    """The cross-lingual trials: one language is trained on."""
    return [trial for trial in load(name).trials if len(learnt(trial)) == 1]


@pytest.mark.parametrize(
    ("name", "task"), [("contributions/table2", "pos"), ("contributions/table3", "ner")]
)
def test_tables_2_and_3(name: str, task: str) -> None:
    """Cross-lingual 3 sources x 13 trainings x 2 models; multi-lingual 3 x 8 x 13 x 2."""
    recipe = load(name)
    assert counted(recipe, "task", "model") == {(task, MBERT): 351, (task, XLMR): 351}
    assert len(alone(name)) == 3 * 13 * 2
    assert len(recipe.trials) - len(alone(name)) == 3 * 8 * 13 * 2
    assert {learnt(trial) for trial in recipe.trials} == {(s,) for s in ("en", "zh", "ar")} | {
        (s, t) for s in ("en", "zh", "ar") for t in NINE if t != s
    }
    removed = {
        trial.get("remove")["lowest"] if trial.get("remove") else 0 for trial in recipe.trials
    }
    assert removed == set(range(13))


def test_heads_are_ranked_on_the_source_alone() -> None:
    for trial in load("contributions/table2").trials:
        if trial.get("remove"):
            assert trial.steps == ("finetune", "rank", "restart", "prune", "finetune", "evaluate")
            assert trial.languages(0) == trial.languages(1) == [trial.get("source")]
            assert trial.languages(4) == list(learnt(trial))
    assert (
        len({trial.keys[1] for trial in load("contributions/table2").trials if trial.get("remove")})
        == 3 * 2
    )


def test_the_papers_totals() -> None:
    """156 cross-lingual and 1,248 multi-lingual trainings of POS and NER together."""
    assert sum(len(alone(f"contributions/table{n}")) for n in (2, 3)) == 156
    assert sum(len(load(f"contributions/table{n}").trials) for n in (2, 3)) == 156 + 1248


def test_table4() -> None:
    """English alone, scored in nine languages, and with each of eight: (1 + 8) x 13 x 2."""
    recipe = load("contributions/table4")
    assert len(recipe.trials) == (1 + 8) * 13 * 2 == 234
    assert {learnt(trial) for trial in recipe.trials} == {("en",)} | {
        ("en", t) for t in ATIS if t != "en"
    }
    assert {tuple(trial.get("targets")) for trial in alone("contributions/table4")} == {
        tuple(sorted(ATIS))
    }
    assert setting("en", "en") == "mono-lingual"


def test_table5() -> None:
    """Highest and random heads: 2 tasks x 2 orders x 12 x (1 + 8) = 432.

    The unpruned and lowest ones are those of tables 2 and 3.
    """
    recipe = load("contributions/table5")
    orders = [next(iter(trial.get("remove") or {"none": 0})) for trial in recipe.trials]
    assert orders.count("highest") + orders.count("random_k") == 432
    assert {
        trial.get("draw") for trial in recipe.trials if "random_k" in (trial.get("remove") or {})
    } == {42}
    rest = {
        trial.id
        for trial, order in zip(recipe.trials, orders, strict=True)
        if order in ("none", "lowest")
    }
    assert len(rest) == 2 * 13 * (1 + 8)
    assert rest < {trial.id for n in (2, 3) for trial in load(f"contributions/table{n}").trials}


def test_table6() -> None:
    """5 targets x 2 tasks x (1 + 12 x (MD, SD, and EC's four)) = 730."""
    recipe = load("contributions/table6")
    assert len(recipe.trials) == 5 * 2 * (1 + 12 * (1 + 1 + 4)) == 730
    assert {learnt(trial) for trial in recipe.trials} == {
        tuple(x for x in FIVE if x != left) for left in FIVE
    }
    merged = [
        trial
        for trial in recipe.trials
        if isinstance(trial.get("source"), list) and trial.get("remove")
    ]
    assert len(merged) == 5 * 2 * 12 * 2
    assert {trial.get("rank")["merge"] for trial in merged} == {"md", "sd"}
    single = [trial for trial in recipe.trials if isinstance(trial.get("source"), str)]
    assert len(single) == 5 * 2 * 12 * 4
    assert all(trial.get("source") in learnt(trial) for trial in single)
    ranked = {key for trial in recipe.trials for key in trial.work if trial.get("remove")}
    assert len(ranked) == 5 * 2 * 2 + len(
        {trial.keys[0] for trial in merged + single}
    )  # each language trained and ranked once a task


def test_figure1() -> None:
    """9 languages x 3 tasks x 2 models = 54 rankings, and nothing else."""
    recipe = load("contributions/figure1")
    assert {trial.steps for trial in recipe.trials} == {("finetune", "rank")}
    assert counted(recipe, "task", "model") == {
        (task, model): 9 for task in ("pos", "ner", "slots") for model in (MBERT, XLMR)
    }
    assert {trial.get("source") for trial in recipe.trials if trial.get("task") == "slots"} == {
        *ATIS
    }


@pytest.mark.parametrize(("name", "targets"), [("figure2", 7), ("figure3", 8)])
def test_low_resource_figures(name: str, targets: int) -> None:
    """Targets x 9 sizes x 13 trainings; all of English, one to nine tenths of the target."""
    recipe = load(f"contributions/{name}")
    assert len(recipe.trials) == targets * 9 * 13
    parts = {
        (learnt(trial)[1], *next(iter(trial.get("data")["parts"].items())))
        for trial in recipe.trials
    }
    assert {(target, number) for target, _, number in parts} == {
        (t, n) for t, _, _ in parts for n in range(1, 10)
    }
    assert all(target == cut for target, cut, _ in parts)
    assert len({target for target, _, _ in parts}) == targets
    assert ("ur" in {target for target, _, _ in parts}) == (
        name == "figure3"
    )  # the paper leaves Urdu's names out
    assert (
        len({trial.keys[1] for trial in recipe.trials if trial.get("remove")}) == 1
    )  # one ranking, on English, for all


def test_figures_2_and_3_together() -> None:
    assert (
        sum(len(load(f"contributions/{name}").trials) for name in ("figure2", "figure3"))
        == (7 + 8) * 9 * 13
        == 1755
    )


def test_correlations_is_the_searches_and_all_rankings() -> None:
    parts = [load(f"contributions/{name}") for name in ("table2", "table3", "table4", "figure1")]
    recipe = load("contributions/correlations")
    assert {trial.id for trial in recipe.trials} == {
        trial.id for part in parts for trial in part.trials
    }
    assert len(recipe.trials) == 702 + 702 + 234 + 54


def test_pooled_is_what_claims_on_several_tables_need() -> None:
    parts = [load(f"contributions/{name}") for name in ("table2", "table3", "table6", "figure2")]
    assert {trial.id for trial in load("contributions/pooled").trials} == {
        trial.id for part in parts for trial in part.trials
    }


def test_the_control_has_trainings_enough_to_show_more_than_luck() -> None:
    """Six: with fewer no order of signs is rarer than 5 in 100."""
    recipe = load("contributions/search")
    assert counted(recipe, "task", "source").keys() >= {
        (task, source) for task in ("pos", "ner") for source in ("en", "zh", "ar")
    }
    assert len(recipe.trials) == 6 * (1 + 4 * 12)


def test_rankers() -> None:
    """Every search of table 3 with multilingual BERT, by each ranking, with shared baselines."""
    recipe = load("contributions/rankers")
    assert len(recipe.trials) == (3 + 24) * (1 + 3 * 12)
    ranks = {
        (rank["method"], rank.get("rule")) for trial in recipe.trials if (rank := trial.get("rank"))
    }
    assert ranks == {
        ("gradient", None),
        ("lrp", "alpha-beta"),
        ("lrp", "epsilon"),
    }  # the paper's LRP, and that of 2024
    table3 = {
        trial.id for trial in load("contributions/table3").trials if trial.get("model") == MBERT
    }
    assert table3 < {trial.id for trial in recipe.trials}


def test_every_training_is_the_papers() -> None:
    for name in (
        "table2",
        "table3",
        "table4",
        "table5",
        "table6",
        "figure1",
        "figure2",
        "figure3",
        "rankers",
    ):
        for trial in load(f"contributions/{name}").trials:
            settings = trial.get("finetune")
            assert (
                settings["epochs"],
                settings["rate"],
                settings["sampler"],
                trial.get("seed"),
            ) == (3, 5e-5, "sequential", 42)
