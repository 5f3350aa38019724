"""What a claim is judged on if a study has other models or tasks, and how the verdict says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from examples import (
    BERT,
    MBERT,
    OTHERS,
    SPOKEN,
    XLMR,
    controls,
    fact,
    facts,
    gains,
    glue,
    layers,
    search,
    weights,
    xnli,
)
from examples_by_claim import CASES

from deadhead.claims import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED, Verdict, all_claims, check
from deadhead.claims.evidence import Evidence
from deadhead.claims.subjects import is_bert, is_mbert, is_xlmr, monolingual, multilingual
from hand_made import study

CLAIMS = all_claims()

PARTS = ("scores", "searches", "merged", "measures", "rankings", "rhos")
MINE = "somebody/my-encoder"


def recast(
    evidence: Evidence, models: Mapping[str, str] = {}, tasks: Mapping[str, str] = {}
) -> Evidence:
    """The same numbers, found on other models or tasks."""

    def other(one: Any) -> Any:
        return replace(
            one, model=models.get(one.model, one.model), task=tasks.get(one.task, one.task)
        )

    return replace(evidence, **{part: tuple(map(other, getattr(evidence, part))) for part in PARTS})


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("bert-base-uncased", "bert monolingual"),
        ("google-bert/bert-large-cased", "bert monolingual"),
        ("runs/bert/", "bert monolingual"),
        ("roberta-base", "monolingual"),
        ("distilbert-base-uncased", "monolingual"),
        ("bert-base-multilingual-cased", "mbert multilingual"),
        ("mini-mbert", "multilingual"),
        ("m-bert", "mbert multilingual"),
        ("prajjwal1/bert-tiny", "monolingual"),
        ("distilbert-base-multilingual-cased", "multilingual"),
        ("FacebookAI/xlm-roberta-large", "xlmr multilingual"),
        ("xlm-study/bert-base-cased", "bert monolingual"),
        ("world/encoder", "monolingual multilingual"),
        (MINE, "monolingual"),
    ],
)
def test_kinds_by_name(model: str, kinds: str) -> None:
    known = {
        "bert": is_bert,
        "mbert": is_mbert,
        "xlmr": is_xlmr,
        "monolingual": monolingual,
        "multilingual": multilingual,
    }
    assert [name for name, fits in known.items() if fits(model)] == kinds.split()


# Statements about any encoder; all others are about the models and tasks they name.
GENERAL = {
    *("W3a", "W3b", "W4", "W5", "W7", "W8", "W11", "W12", "W13", "W16"),
    *("C-drop-NER", "C-rand-NER", "C-rand-POS", "C-max-vs-low", "C-max-vs-rand", "C-rand-vs-low"),
    *("C-multi-all", "C-md-sd", "C-single-NER", "C-single-POS", "C-low", "C-ranker-alike"),
    *(name for name in CLAIMS if name.startswith(("C-mean-SF", "L-"))),
}
ON_BERT = [f"W{n}" for n in (6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 18)]
ON_MBERT = [name for name in CLAIMS if name.startswith("M")]
ON_SEARCHES = [name for name in CLAIMS if name.startswith("C-")]


def stands_in(name: str, ours: Verdict, theirs: Verdict, about: str) -> None:
    """A general claim is judged on replacements, with their names; any other is not tested."""
    if name in GENERAL:
        assert (ours.verdict, ours.margin, ours.trials) == (
            theirs.verdict,
            theirs.margin,
            theirs.trials,
        )
    else:
        assert (ours.verdict, ours.margin, ours.follows) == (UNTESTED, None, "")
        assert ours.numbers.startswith(f"about {about}")
        assert "; this study has " in ours.numbers


@pytest.mark.parametrize("name", ON_BERT)
@pytest.mark.parametrize("model", ["mini-mbert", XLMR, "roberta-base", MINE])
def test_claims_on_bert_and_another_encoder(name: str, model: str) -> None:
    for case in CASES[name]:
        ours, theirs = CLAIMS[name].on(recast(case, {BERT: model})), CLAIMS[name].on(case)
        stands_in(name, ours, theirs, "BERT")
        assert f"on {model}, not BERT" in ours.numbers
        assert "not BERT" not in theirs.numbers


@pytest.mark.parametrize("name", ON_BERT)
def test_where_there_is_bert_no_other_is_judged(name: str) -> None:
    holds, fails = CASES[name]
    for ours, other in ((holds, fails), (fails, holds)):
        for model in ("mini-mbert", "roberta-base"):
            assert CLAIMS[name].on(recast(other, {BERT: model}) + ours) == CLAIMS[name].on(ours)
    if name not in ("W15", "W16"):  # too little of BERT is too little, whatever there is of others
        thin = Evidence(scores=holds.scores[:1])
        assert CLAIMS[name].on(thin + recast(holds, {BERT: "mini-mbert"})).verdict == OPEN


def test_next_of_kin_come_first() -> None:
    """BERT is replaced by a model for one language first, mBERT by a multilingual one."""
    holds, fails = CASES["W7"]
    verdict = CLAIMS["W7"].on(recast(fails, {BERT: XLMR}) + recast(holds, {BERT: "roberta-base"}))
    assert verdict.verdict == HOLDS
    assert "roberta-base, not BERT" in verdict.numbers
    assert XLMR not in verdict.numbers
    holds, fails = CASES["C-low"]
    verdict = CLAIMS["C-low"].on(
        recast(fails, {MBERT: MINE}) + recast(holds, {MBERT: "mini-mbert"})
    )
    assert (verdict.verdict, MINE in verdict.numbers) == (HOLDS, False)


@pytest.mark.parametrize("name", ON_MBERT)
@pytest.mark.parametrize("model", [XLMR, "world/encoder", "mini-mbert", MINE])
def test_claims_on_mbert_and_another_encoder(name: str, model: str) -> None:
    """Another model neither confirms nor refutes a statement about multilingual BERT."""
    for case in CASES[name]:
        ours, theirs = CLAIMS[name].on(recast(case, {MBERT: model})), CLAIMS[name].on(case)
        stands_in(name, ours, theirs, "mBERT")
        assert f"this study has {model} on " in ours.numbers


def test_bert_never_stands_in_for_mbert() -> None:
    for name in ("M1", "M2", "M8"):
        assert CLAIMS[name].on(CASES[name][0]).verdict == HOLDS
        verdict = CLAIMS[name].on(recast(CASES[name][0], {MBERT: BERT}))
        assert verdict.verdict == UNTESTED
        assert verdict.numbers.startswith("about mBERT on GLUE")
        assert (
            "this study has bert-base-uncased on mnli, bert-base-uncased on qqp, "
            "bert-base-uncased on qnli and 1 more" in verdict.numbers
        )


@pytest.mark.parametrize("name", [name for name in ON_SEARCHES if not name.startswith("C-xlmr")])
@pytest.mark.parametrize("model", [MINE, "world/encoder"])
def test_claims_on_searches_and_another_encoder(name: str, model: str) -> None:
    about = "XLM-R" if "-xlm-r" in name else "mBERT"
    several = name.startswith(
        ("C-count", "C-heads", "C-rho", "C-p-", "C-rank", "C-drop")
    ) and not name.startswith("C-ranker")
    for case in CASES[name]:
        if name.startswith(
            ("C-count", "C-drop")
        ):  # a third model in place of both would have every pair twice
            case = Evidence(searches=tuple(s for s in case.searches if s.model == MBERT))
        ours, theirs = (
            CLAIMS[name].on(recast(case, {MBERT: model, XLMR: model})),
            CLAIMS[name].on(case),
        )
        stands_in(name, ours, theirs, about)
        if ours.numbers.count(";") > 1 or name in GENERAL:
            assert f"on {model}, not {'mBERT and XLM-R' if several else about}" in ours.numbers
        assert ", not " not in theirs.numbers.partition(":")[0]


def test_a_study_with_nothing_of_what_a_claim_is_about() -> None:
    """There is plenty of data, but none of it on XNLI: that is not too little data."""
    tagged = recast(CASES["M9"][0], {MBERT: "world/encoder"}, {"xnli": "pos"})
    verdict = CLAIMS["M17"].on(tagged)
    assert (verdict.verdict, verdict.numbers) == (
        UNTESTED,
        "about mBERT; this study has world/encoder on pos",
    )
    assert (
        CLAIMS["M17"].on(CASES["M9"][0]).verdict == OPEN
    )  # mBERT itself, whose entropy was not measured
    assert CLAIMS["M9"].on(recast(CASES["M9"][0], tasks={"xnli": "pos"})).verdict == UNTESTED
    assert CLAIMS["M9"].on(Evidence(scores=CASES["M9"][0].scores[:1])).verdict == OPEN
    assert CLAIMS["M9"].on(Evidence()).verdict == OPEN


def test_neither_of_two_models_of_a_paper_stands_in_for_the_other() -> None:
    for name, other in (
        ("C-mean-POS-mbert-cross-lingual", XLMR),
        ("C-mean-POS-xlm-r-cross-lingual", MBERT),
    ):
        verdict = CLAIMS[name].on(gains([1.0, 2.0, 3.0], model=other))
        assert verdict.verdict == UNTESTED
        assert verdict.numbers.endswith(f"this study has {other} on pos")
    mixed = CASES["C-mean-POS-mbert-cross-lingual"][0] + gains([9.0, 9.0, 9.0], model=MINE)
    assert CLAIMS["C-mean-POS-mbert-cross-lingual"].on(mixed).numbers.startswith("mean gain")


def test_a_comparison_with_xlmr_needs_both() -> None:
    for case in CASES["C-xlmr-POS-cross-lingual"]:
        ours, theirs = (
            CLAIMS["C-xlmr-POS-cross-lingual"].on(one)
            for one in (recast(case, {MBERT: MINE}), case)
        )
        assert ours.verdict == UNTESTED
        assert ours.numbers.startswith("about mBERT, against XLM-R; this study has ")
        assert ours.numbers.endswith(f"on {MINE}, not mBERT: {theirs.numbers}")
        large = CLAIMS["C-xlmr-POS-cross-lingual"].on(recast(case, {XLMR: "xlm-roberta-large"}))
        assert (large.verdict, large.numbers) == (
            theirs.verdict,
            f"against xlm-roberta-large: {theirs.numbers}",
        )
        assert CLAIMS["C-xlmr-POS-cross-lingual"].on(recast(case, {XLMR: MINE})).verdict == OPEN


def test_a_comparison_of_mbert_needs_bert() -> None:
    for name in ("M6", "M7", "M14"):
        for case in CASES[name]:
            ours = CLAIMS[name].on(recast(case, {BERT: "roberta-base"}))
            assert ours.verdict == UNTESTED
            assert "against roberta-base, not BERT: " in ours.numbers
    for name in ("M6", "M7"):
        assert CLAIMS[name].on(recast(CASES[name][0], {BERT: XLMR})).verdict == OPEN
    beside = CASES["M3"][0] + glue(layers(odd2=60, even2=50), model="roberta-base")
    assert (
        CLAIMS["M3"]
        .on(beside)
        .numbers.endswith("odd 72.00, even 73.00; roberta-base: odd 60.00, even 50.00")
    )


def test_without_a_bert_of_its_own_a_study_of_mbert_has_the_printed_one() -> None:
    """The paper, too, compares with the table of the one before."""
    for middle, verdict in ((71, HOLDS), (60, FAILS)):
        result = CLAIMS["M14"].on(
            xnli({"layers top 2": 70, "layers bottom 2": 70, "layers middle 2": middle})
        )
        assert result.verdict == verdict
        assert (
            " %, against 0.28 % on mnli and qqp and qnli and sst2 of BERT as printed; less in "
            in result.numbers
        )


def test_one_of_two_models_is_named() -> None:
    """A count over both models, judged on one of them."""
    one = gains([1.0] * 11 + [-1.0])
    verdict = CLAIMS["C-count-POS"].on(one)
    assert (
        verdict.numbers == f"on {MBERT} of mBERT and XLM-R: 11 of 12 pairs gain (stated: 88 of 96)"
    )
    both = gains([1.0] * 12) + gains([1.0] * 12, model=XLMR)
    assert (
        CLAIMS["C-count-POS"].on(both + gains([-1.0] * 12, model=MINE)).numbers
        == "24 of 24 pairs gain (stated: 88 of 96)"
    )


def test_numbers_of_the_paper_that_a_third_model_is_held_against() -> None:
    case = CASES["C-heads-POS"][0]
    assert "(stated: 7.52; " in CLAIMS["C-heads-POS"].on(case).numbers
    assert (
        "(stated: 7.52 for mBERT; " in CLAIMS["C-heads-POS"].on(recast(case, {MBERT: MINE})).numbers
    )


def test_claims_on_luck_name_the_models() -> None:
    verdict = CLAIMS["L-seeds"].on(recast(controls("seeds", 0.2), {MBERT: MINE}))
    assert verdict.numbers.startswith(f"on {MINE}; on pos: ahead of ")
    assert (
        CLAIMS["L-count-POS"]
        .on(CASES["L-count-POS"][0])
        .numbers.startswith(f"on {MBERT}: 12 of 12")
    )


def test_searches_of_a_model_that_translates_stand_in_for_nothing() -> None:
    some = tuple(
        search(1.0, target=t, task="parallel", random=0.5, kind="translate", model=MINE)
        for t in OTHERS[:8]
    )
    assert CLAIMS["C-rand-vs-low"].on(Evidence(searches=some)).verdict == OPEN
    assert (
        CLAIMS["C-rand-vs-low"]
        .on(Evidence(searches=tuple(replace(s, kind="tag") for s in some)))
        .verdict
        == HOLDS
    )
    assert (
        CLAIMS["L-random"].on(Evidence(searches=some)).verdict == HOLDS
    )  # luck is the same everywhere


# --- tasks


@pytest.mark.parametrize(
    "name", ["W6", "W7", "W8", "W11", "W12", "W13", "M1", "M2", "M3", "M4", "M5", "M6", "M8"]
)
def test_one_task_of_glue_is_named_and_shows_little(name: str) -> None:
    holds = CASES[name][0]
    verdict = CLAIMS[name].on(Evidence(scores=tuple(f for f in holds.scores if f.task == "sst2")))
    assert verdict.verdict == (
        HOLDS if name in ("W8", "M2", "M6") else UNSHOWN
    )  # these have several comparisons on one task
    assert verdict.numbers.startswith("on sst2 of GLUE: ")
    assert not CLAIMS[name].on(holds).numbers.startswith("on ")


@pytest.mark.parametrize(
    "name", ["W6", "W7", "W8", "W9", "W11", "W12", "W13", "M1", "M2", "M3", "M4", "M5", "M6", "M8"]
)
def test_another_task_in_place_of_glue(name: str) -> None:
    other = {"mnli": "mine", "sst2": "pos", "qqp": "ner", "qnli": "slots"}
    for case in CASES[name]:
        ours, theirs = CLAIMS[name].on(recast(case, tasks=other)), CLAIMS[name].on(case)
        assert (ours.verdict == UNTESTED) == (name not in GENERAL)
        assert (ours.verdict == FAILS) <= (theirs.verdict == FAILS)
        assert ", not GLUE: " in ours.numbers
    holds, fails = CASES[name]
    assert CLAIMS[name].on(recast(fails, tasks=other) + holds) == CLAIMS[name].on(
        holds
    )  # where there is GLUE, nothing else is judged


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
    one = CLAIMS["W10"].on(Evidence(scores=tuple(f for f in holds.scores if f.task == "sst2")))
    assert (one.verdict, one.numbers) == (
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
def test_another_task_across_languages_does_not_test_what_is_said_of_xnli(name: str) -> None:
    holds, fails = CASES[name]
    for case in (holds, fails):
        several = recast(case, tasks={"xnli": "pos"})
        if name == "M20":  # one language is no task across languages
            several += replace(
                several,
                scores=tuple(replace(f, target="fr", trial=f.trial + "fr") for f in several.scores),
            )
        ours = CLAIMS[name].on(several)
        assert (ours.verdict, ours.margin) == (UNTESTED, None)
        assert ours.numbers.startswith("about mBERT on XNLI")
        assert "on pos, not XNLI: " in ours.numbers
        assert (
            f"on {MINE}, not mBERT; on pos, not XNLI: "
            in CLAIMS[name].on(recast(several, {MBERT: MINE})).numbers
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


def test_two_tasks_across_languages_are_told_one_by_one() -> None:
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


def test_a_translation_model_is_named_and_stands_in_for_no_encoder() -> None:
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
        [cell(*one) for one in left.items()],
        ["prune", "finetune", "evaluate"],
    )
    verdicts = {v.id: v for v in check(folder) if v.verdict != OPEN}
    assert {name for name, one in verdicts.items() if one.judged} == {"W7"}
    assert {verdicts[name].verdict for name in ("W6", "M4", "M5", "M9", "M11")} == {UNTESTED}
    mine = "this study has mini-mbert on mine; on mini-mbert, not"
    assert (
        verdicts["W6"].numbers == f"about BERT on GLUE; {mine} BERT; on mine, not GLUE: "
        "mean loss 0.40 points (mine en 50 %: +0.40)"
    )
    assert verdicts["M11"].numbers.startswith(
        f"about mBERT on XNLI; {mine} mBERT; on mine, not XNLI: the bottom matters more in 11 of 11"
    )
    assert all("mini-mbert" in one.numbers and "mine" in one.numbers for one in verdicts.values())
