"""The mbert-prunability recipes have the configurations that the paper lists, by hand."""

from __future__ import annotations

from paper_recipes import counted, removals

from deadhead.studies import load

GLUE = ("mnli", "qqp", "qnli", "sst2")
PERCENT = (10, 20, 30, 40, 50, 60, 70, 80, 90)
LAYERS = [f"layers {where} {k}" for where in ("top", "middle", "bottom") for k in (2, 4, 6, 8)] + [
    "layers odd 6",
    "layers even 6",
]
XNLI = "ar+de+el+en+es+hi+sw+tr+ur+vi+zh"
MBERT = "bert-base-multilingual-cased"


def test_figure1() -> None:
    """112 trainings of multilingual BERT; BERT's 112 are those of weak-link table 4."""
    recipe = load("mbert-prunability/figure1")
    assert removals("mbert-prunability/figure1") == ["none", *(f"random {p}" for p in PERCENT)]
    assert counted(recipe, "model") == {("bert-base-uncased",): 112, (MBERT,): 112}
    assert {t.id for t in load("weak-link/table4").trials} < {t.id for t in recipe.trials}
    assert counted(recipe, "model", "task")[MBERT, "qnli"] == 1 + 9 * 3


def test_figure2() -> None:
    """Twelve layer sets, odd and even, and a baseline, on four tasks and on XNLI.

    The paper scores its MNLI models on XNLI. Here XNLI is a task of its own, trained on the same
    MNLI data, and its epoch
    is chosen on MNLI's dev as well, never on what is reported: 15 trainings more.
    """
    assert removals("mbert-prunability/figure2") == ["none", *LAYERS]
    recipe = load("mbert-prunability/figure2")
    assert counted(recipe, "task") == dict.fromkeys([(task,) for task in (*GLUE, "xnli")], 15)
    assert counted(recipe, "targets") == {("en",): 60, (XNLI,): 15}
    chosen = {
        (trial.get("task"), trial.get("finetune")["weights"], trial.get("finetune")["scored"])
        for trial in recipe.trials
    }
    assert chosen == {*((task, "best", "dev") for task in GLUE), ("xnli", "best", "mnli")}


def test_figure3() -> None:
    recipe = load("mbert-prunability/figure3")
    assert counted(recipe, "task", "targets") == {("xnli", XNLI): 1 + 9 * 3}
    assert removals("mbert-prunability/figure3") == ["none", *(f"random {p}" for p in PERCENT)]
    assert {trial.get("finetune")["scored"] for trial in recipe.trials} == {"mnli"}


def test_figures_4_and_5_measure_before_and_after() -> None:
    entropy, points = load("mbert-prunability/figure4"), load("mbert-prunability/figure5")
    assert counted(entropy, "remove", "measure", "task") == {("random 90", "entropy", "mnli"): 3}
    assert counted(points, "remove", "measure", "targets") == {("random 50", "embeddings", XNLI): 1}
    assert entropy.data["figures"][0]["show"] == "entropy_change"  # not its levels
    for trial in (*entropy.trials, *points.trials):
        assert trial.steps == ("prune", "measure", "finetune", "measure", "evaluate")
        assert trial.get("finetune")["first"]  # so there is a measure after one epoch as well


def test_table1() -> None:
    assert removals("mbert-prunability/table1") == [
        f"layers {w} 6" for w in ("top", "bottom", "middle", "odd", "even")
    ]
    assert counted(load("mbert-prunability/table1"), "task") == dict.fromkeys(
        [(task,) for task in GLUE], 5
    )
    assert {t.id for t in load("mbert-prunability/table1").trials} < {
        t.id for t in load("mbert-prunability/figure2").trials
    }


def test_recovery_is_over_every_pruning() -> None:
    """27 random and 14 of layers, all scored after one epoch and at the end."""
    assert removals("mbert-prunability/recovery") == [*(f"random {p}" for p in PERCENT), *LAYERS]
    trials = load("mbert-prunability/recovery").trials
    assert len(trials) == 27 + 14
    assert all(
        trial.get("finetune")["first"] and trial.get("finetune")["weights"] == "last"
        for trial in trials
    )


def test_a_layer_without_heads_adds_nothing() -> None:
    for name in ("figure1", "figure2", "figure3", "figure4", "figure5", "table1", "recovery"):
        for trial in load(f"mbert-prunability/{name}").trials:
            assert trial.get("prune") == (
                {"drop_output_bias": True} if trial.get("remove") else None
            )


def test_headline_is_figures_1_and_3_without_bert() -> None:
    parts = [
        trial
        for name in ("figure1", "figure3")
        for trial in load(f"mbert-prunability/{name}").trials
    ]
    theirs = {trial.id for trial in parts if trial.get("model") == "bert-base-multilingual-cased"}
    assert {trial.id for trial in load("mbert-prunability/headline").trials} == theirs
