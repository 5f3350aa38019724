"""What a claim is judged on if a study has other models or tasks, and how the verdict says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_scores import BERT, MBERT, XLMR, glue
from example_searches import OTHERS, controls, gains, search
from examples import layers, xnli
from examples_by_claim import CASES
from recast import CLAIMS, MINE, recast

from deadhead.papers.claims import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED, Verdict
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.subjects import is_bert, is_mbert, is_xlmr, monolingual, multilingual


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
    *("C-rest-POS", "C-rest-NER", "C-rest-SF", "C-source-POS", "C-source-NER", "C-peak"),
    *(name for name in CLAIMS if name.startswith(("C-mean-SF", "L-"))),
}


ON_BERT = [f"W{n}" for n in (6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 18)]


ON_MBERT = [name for name in CLAIMS if name.startswith("M")]


AGAINST_XLMR = ("C-xlmr", "C-models")


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


def test_bert_never_replaces_mbert() -> None:
    for name in ("M1", "M2", "M8"):
        assert CLAIMS[name].on(CASES[name][0]).verdict == HOLDS
        verdict = CLAIMS[name].on(recast(CASES[name][0], {MBERT: BERT}))
        assert verdict.verdict == UNTESTED
        assert verdict.numbers.startswith("about mBERT on GLUE")
        assert (
            "this study has bert-base-uncased on mnli, bert-base-uncased on qqp, "
            "bert-base-uncased on qnli and 1 more" in verdict.numbers
        )


@pytest.mark.parametrize("name", [n for n in ON_SEARCHES if not n.startswith(AGAINST_XLMR)])
@pytest.mark.parametrize("model", [MINE, "world/encoder"])
def test_claims_on_searches_and_another_encoder(name: str, model: str) -> None:
    about = "XLM-R" if "-xlm-r" in name else "mBERT"
    pools_models = name.startswith(
        ("C-count", "C-heads", "C-rho", "C-p-", "C-rank", "C-drop", "C-rest", "C-source")
    ) and not name.startswith("C-ranker")
    for case in CASES[name]:
        if name.startswith(
            ("C-count", "C-drop", "C-rest", "C-source")
        ):  # a third model in place of both would have every pair twice
            case = Evidence(searches=tuple(s for s in case.searches if s.model == MBERT))
        ours, theirs = (
            CLAIMS[name].on(recast(case, {MBERT: model, XLMR: model})),
            CLAIMS[name].on(case),
        )
        stands_in(name, ours, theirs, about)
        if ours.numbers.count(";") > 1 or name in GENERAL:
            assert f"on {model}, not {'mBERT and XLM-R' if pools_models else about}" in ours.numbers
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


def test_neither_of_two_models_of_a_paper_replaces_the_other() -> None:
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
            CLAIMS["C-xlmr-POS-cross-lingual"].on(evidence)
            for evidence in (recast(case, {MBERT: MINE}), case)
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
    evidence = gains([1.0] * 11 + [-1.0])
    verdict = CLAIMS["C-count-POS"].on(evidence)
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
