"""A claim on studies of other models and tasks than the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_scores import BERT, MBERT, fact, facts, glue
from examples import SPOKEN, layers, weights, xnli
from examples_by_claim import CASES
from recast import CLAIMS, MINE, recast

from deadhead.papers.claims import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED, check
from deadhead.papers.claims.evidence import Evidence
from hand_made import study


def test_a_task_scored_in_another_language_does_not_stand_in_for_glue() -> None:
    other = {"mnli": "pos", "sst2": "ner", "qqp": "mine", "qnli": "slots"}
    case = recast(CASES["W7"][0], tasks=other)
    assert CLAIMS["W7"].on(case).verdict == HOLDS  # four tasks that agree
    assert (
        CLAIMS["W7"]
        .on(replace(case, scores=tuple(replace(f, target="de") for f in case.scores)))
        .verdict
        == OPEN
    )


def test_one_task_in_two_languages_is_two_cases() -> None:
    mine = [fact("pos", "none", 80.0, target=t) for t in ("en", "de")] + [
        fact("pos", "random 50", v, 50, t) for t, v in (("en", 79), ("de", 70))
    ]
    verdict = CLAIMS["W6"].on(facts(*(replace(f, source=f.target) for f in mine)))
    assert verdict.numbers.endswith(
        "; on pos, not GLUE: mean loss 5.50 points (pos en 50 %: +1.00, pos de 50 %: +10.00)"
    )
    three = {"top2": 70, "bottom2": 70, "odd2": 73, "even2": 72}
    halves = [
        f
        for t in ("en", "de")
        for f in recast(glue(layers(**three), ("pos",))).scores
        for f in [replace(f, source=t, target=t)]
    ]
    assert (
        CLAIMS["W12"].on(facts(*halves)).numbers
        == "on pos, not GLUE: odd is best on 2 of 2: pos en odd, pos de odd"
    )


def test_claims_that_name_their_tasks_are_judged_on_those_alone() -> None:
    holds, fails = CASES["W10"]
    verdict = CLAIMS["W10"].on(Evidence(scores=tuple(f for f in holds.scores if f.task == "sst2")))
    assert (verdict.verdict, verdict.numbers) == (
        UNSHOWN,
        "on sst2 of qnli and sst2: extra loss of the middle: sst2 3.00",
    )
    assert (
        CLAIMS["W10"]
        .on(Evidence(scores=tuple(f for f in fails.scores if f.task == "sst2")))
        .verdict
        == UNSHOWN
    )  # one seed
    assert (
        CLAIMS["W10"].on(recast(holds, tasks={"qnli": "mnli", "sst2": "pos"})).verdict == UNTESTED
    )
    unpruned = CASES["M7"][1]  # mBERT is ahead on mnli
    for task in ("mnli", "qqp", "sst2"):
        verdict = CLAIMS["M7"].on(
            Evidence(scores=tuple(f for f in unpruned.scores if f.task == task))
        )
        assert (verdict.verdict, verdict.numbers.startswith(f"on {task} of GLUE: ")) == (
            UNSHOWN,
            True,
        )
    assert (
        CLAIMS["M7"]
        .on(recast(unpruned, tasks=dict.fromkeys(("mnli", "qqp", "qnli", "sst2"), "pos")))
        .verdict
        == UNTESTED
    )


ON_XNLI = [*(f"M{n}" for n in range(9, 17)), "M20", "M21"]


@pytest.mark.parametrize("name", ON_XNLI)
def test_another_task_across_languages_does_not_test_a_claim_on_xnli(name: str) -> None:
    holds, fails = CASES[name]
    for case in (holds, fails):
        evidence = recast(case, tasks={"xnli": "pos"})
        if name == "M20":  # one language is no task across languages
            evidence += replace(
                evidence,
                scores=tuple(
                    replace(f, target="fr", trial=f.trial + "fr") for f in evidence.scores
                ),
            )
        ours = CLAIMS[name].on(evidence)
        assert (ours.verdict, ours.margin) == (UNTESTED, None)
        assert ours.numbers.startswith("about mBERT on XNLI")
        assert "on pos, not XNLI: " in ours.numbers
        assert (
            f"on {MINE}, not mBERT; on pos, not XNLI: "
            in CLAIMS[name].on(recast(evidence, {MBERT: MINE})).numbers
        )
    beside = Evidence(
        scores=tuple(f for f in recast(fails, tasks={"xnli": "pos"}).scores if f.model == MBERT)
    )
    assert CLAIMS[name].on(beside + holds) == CLAIMS[name].on(
        holds
    )  # where there is XNLI, nothing else is judged


def test_two_source_languages_are_judged_one_by_one() -> None:
    holds, fails = CASES["M11"]
    german = replace(fails, scores=tuple(replace(f, source="de") for f in fails.scores))
    verdict = CLAIMS["M11"].on(holds + german)
    assert verdict.verdict == FAILS
    assert verdict.numbers.count("the bottom matters more in 11 of 11 languages") == 1
    assert " | on xnli from de: the bottom matters more in 10 of 11 languages" in verdict.numbers
    other = CLAIMS["M11"].on(recast(german, tasks={"xnli": "pos"}))
    assert "; on pos from de, not XNLI: " in other.numbers


def test_two_tasks_across_languages_are_reported_one_by_one() -> None:
    holds, fails = (
        recast(case, tasks={"xnli": task})
        for case, task in zip(CASES["M11"], ("pos", "ner"), strict=True)
    )
    both = CLAIMS["M11"].on(holds + fails)
    assert "on pos, not XNLI: the bottom matters more in 11 of 11" in both.numbers
    assert " | on ner, not XNLI: the bottom matters more in 10 of 11" in both.numbers


def test_a_task_in_one_language_does_not_stand_in_for_xnli() -> None:
    curve = {"random 25": (78, 25), "random 50": (76, 50), "random 90": (70.4, 90)}
    many = xnli(curve)
    english = replace(many, scores=tuple(f for f in many.scores if f.target == "en"))
    assert CLAIMS["M9"].on(english).verdict == UNSHOWN
    assert (
        CLAIMS["M9"].on(recast(english, tasks={"xnli": "pos"})).numbers
        == f"about mBERT on XNLI; this study has {MBERT} on pos"
    )


def test_what_was_measured_on_another_task_names_it() -> None:
    case = weights(1.0, 0.95, 0.98)
    assert CLAIMS["W15"].on(case).numbers.startswith("largest difference")
    assert (
        CLAIMS["W15"]
        .on(recast(case, tasks={"mnli": "pos"}))
        .numbers.startswith("on pos: largest difference")
    )
    both = case + replace(
        recast(case, tasks={"mnli": "pos"}),
        measures=tuple(replace(m, task="pos", trial="p") for m in case.measures),
    )
    verdict = CLAIMS["W15"].on(both)
    assert (verdict.numbers.partition(":")[0], verdict.trials) == ("on mnli and pos", ("w", "p"))
    translated = replace(
        case, measures=tuple(replace(m, task="parallel", kind="translate") for m in case.measures)
    )
    assert CLAIMS["W15"].on(translated).verdict == OPEN


def test_a_translation_model_is_named_and_replaces_no_encoder() -> None:
    other = CLAIMS["W2"].on(
        recast(CASES["W2"][0], {BERT: "facebook/some-multilingual"}, {"wmt14": "mine"})
    )
    assert other.verdict == UNTESTED
    assert (
        "on facebook/some-multilingual; on mine, not WMT14: loss of BLEU: en-ru 75 %: +0.90"
        in other.numbers
    )
    own = CLAIMS["W2"].on(recast(CASES["W2"][0], {BERT: "transformer-base"}))
    assert (own.verdict, own.numbers) == (
        HOLDS,
        "loss of BLEU: en-ru 75 %: +0.90, en-de 75 %: +0.90",
    )
    curve = CASES["W3a"][0]
    assert CLAIMS["W3a"].on(curve).verdict == HOLDS
    assert (
        CLAIMS["W3a"]
        .on(recast(curve, {BERT: "facebook/some-multilingual"}, {"wmt14": "mine"}))
        .verdict
        == HOLDS
    )
    same = replace(
        curve,
        scores=tuple(
            replace(f, source="en-ru", target="en-ru") for f in curve.scores if f.target == "en-ru"
        ),
    )
    assert (
        CLAIMS["W7"].on(same).verdict == OPEN
    )  # learnt and scored in one "language", but it translates
    assert (
        CLAIMS["W7"]
        .on(replace(same, scores=tuple(replace(f, kind="tag") for f in same.scores)))
        .verdict
        == UNSHOWN
    )


# --- from a folder


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    """A multilingual encoder on a task file, scored in many languages: all verdicts name both."""
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nkind: classify\nmetrics: [accuracy]\ntexts: [text]\nlabel: label\n"
        "files: {train: a.tsv}\n"
    )
    fixed = {
        "model": "mini-mbert",
        "task": str(tmp_path / "mine.yaml"),
        "source": "en",
        "targets": list(SPOKEN),
        "splits": ["test"],
    }
    left = {
        "none": 0.9,
        "random 25": 0.88,
        "random 50": 0.896,
        "random 90": 0.8,
        "layers top 1": 0.8,
        "layers bottom 1": 0.7,
    }

    def cell(remove: str, score: float) -> dict[str, Any]:
        word, _, amount = remove.partition(" ")
        removal = (
            remove if remove == "none" else {word: int(amount) if word == "random" else amount}
        )
        metrics = {f"{target}/test/accuracy": score for target in SPOKEN}
        return {
            "labels": {"remove": removal},
            "metrics": metrics,
            "removed": ["encoder.0.0"],
            "cost": {"heads before": 40},
        }

    folder = study(
        tmp_path / "s",
        fixed,
        [cell(*pair) for pair in left.items()],
        ["prune", "finetune", "evaluate"],
    )
    verdicts = {v.id: v for v in check(folder) if v.verdict != OPEN}
    assert {name for name, verdict in verdicts.items() if verdict.judged} == {"W7"}
    assert {verdicts[name].verdict for name in ("W6", "M4", "M5", "M9", "M11")} == {UNTESTED}
    mine = "this study has mini-mbert on mine; on mini-mbert, not"
    assert (
        verdicts["W6"].numbers == f"about BERT on GLUE; {mine} BERT; on mine, not GLUE: "
        "mean loss 0.40 points (mine en 50 %: +0.40)"
    )
    assert verdicts["M11"].numbers.startswith(
        f"about mBERT on XNLI; {mine} mBERT; on mine, not XNLI: the bottom matters more in 11 of 11"
    )
    assert all(
        "mini-mbert" in verdict.numbers and "mine" in verdict.numbers
        for verdict in verdicts.values()
    )
