"""What a claim is judged on if a study has other models or tasks, and how the verdict says so."""

from dataclasses import replace

import pytest
from example_scores import BERT, MBERT, XLMR, facts
from example_searches import OTHERS, gains, search
from examples import xnli
from examples_by_claim import CASES
from recast import CLAIMS, MINE, recast

from deadhead.papers.claims import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED
from deadhead.papers.claims.claim import is_bert, is_mbert, is_xlmr
from deadhead.papers.claims.evidence import Evidence

KINDS = {"bert": is_bert, "mbert": is_mbert, "xlmr": is_xlmr}


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("google-bert/bert-large-cased", ["bert"]),
        ("runs/bert/", ["bert"]),
        ("roberta-base", []),
        ("distilbert-base-uncased", []),
        ("prajjwal1/bert-tiny", []),
        ("bert-base-multilingual-cased", ["mbert"]),
        ("m-bert", ["mbert"]),
        ("mini-mbert", []),
        ("distilbert-base-multilingual-cased", []),
        ("FacebookAI/xlm-roberta-large", ["xlmr"]),
        ("xlm-study/bert-base-cased", ["bert"]),
        ("world/encoder", []),
    ],
)
def test_kinds_by_name(model, kinds):
    assert [name for name, fits in KINDS.items() if fits(model)] == kinds


# Statements about any encoder, and statements about the models and tasks that they name.
GENERAL = ("W7", "W8", "W11", "W16", "C-max-vs-low", "C-md-sd", "C-low", "C-rest-POS")
NAMED = (
    "W6",
    "W9",
    "W18",
    "M1",
    "M5",
    "M11",
    "M16",
    "M18",
    "C-EC-NER",
    "C-max-POS",
    "C-ranker-cross-lingual",
)
ON_GLUE = ("W6", "W7", "W11", "M1", "M5")


@pytest.mark.parametrize("name", GENERAL)
def test_a_general_claim_is_judged_on_a_replacement_which_it_names(name):
    for case in CASES[name]:
        ours = Evidence(searches=tuple(s for s in case.searches if s.model == MBERT))
        case = replace(case, searches=ours.searches)
        ours, theirs = (
            CLAIMS[name].on(recast(case, {BERT: MINE, MBERT: MINE})),
            CLAIMS[name].on(case),
        )
        assert (ours.verdict, ours.margin) == (theirs.verdict, theirs.margin)
        assert ours.numbers.startswith(f"on {MINE}")


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("model", [MINE, "mini-mbert", "world/encoder"])
def test_a_claim_about_a_model_is_not_tested_on_another(name, model):
    for case in CASES[name]:
        verdict = CLAIMS[name].on(recast(case, {BERT: model, MBERT: model}))
        assert (verdict.verdict, verdict.margin, verdict.follows) == (UNTESTED, None, "")
        about = "BERT" if name.startswith("W") else "mBERT"
        assert verdict.numbers.startswith(f"about {about}")
        assert f"; this study has {model} on " in verdict.numbers


@pytest.mark.parametrize("name", ON_GLUE)
def test_where_there_is_the_own_model_or_task_no_other_is_judged(name):
    holds, fails = CASES[name]
    own = BERT if name.startswith("W") else MBERT
    other = {"mnli": "mine", "sst2": "pos", "qqp": "ner", "qnli": "slots"}
    for beside in (recast(fails, {own: "mini-mbert"}), recast(fails, tasks=other)):
        assert CLAIMS[name].on(beside + holds) == CLAIMS[name].on(holds)
    alone = CLAIMS[name].on(recast(holds, tasks=other))
    assert (alone.verdict == UNTESTED) == (name not in GENERAL)
    assert alone.numbers.startswith("on mine and ") == (name in GENERAL)
    # Too little of the own model is too little, whatever there is of others.
    thin = Evidence(scores=holds.scores[:1]) + recast(holds, {own: "mini-mbert"})
    assert CLAIMS[name].on(thin).verdict == OPEN


def only(name, case=0, **where):
    """The scores of a case of a claim that have these labels."""
    scores = CASES[name][case].scores
    return facts(*(s for s in scores if all(getattr(s, a) == text for a, text in where.items())))


def moved(evidence, **labels):
    """The same scores, found in other languages or by other kinds of tasks."""
    return facts(*(replace(score, **labels) for score in evidence.scores))


TRANSLATOR = "facebook/some-multilingual"
TO_POS = {"xnli": "pos"}
LEARNT = {"source": "en-ru", "target": "en-ru"}
TRANSLATED = Evidence(
    searches=tuple(
        search(1.0, target=t, task="parallel", random=0.5, kind="translate", model=MINE)
        for t in OTHERS[:8]
    )
)
TAGGED = Evidence(searches=tuple(replace(s, kind="tag") for s in TRANSLATED.searches))
AGAINST = "C-xlmr-POS-cross-lingual"
GAIN = "C-mean-POS-{}-cross-lingual"


@pytest.mark.parametrize(
    ("name", "evidence", "verdict", "words"),
    [
        # BERT never replaces mBERT, and neither of two models of a paper the other.
        (
            "M2",
            recast(CASES["M2"][0], {MBERT: BERT}),
            UNTESTED,
            f"this study has {BERT} on mnli, {BERT} on qqp, {BERT} on qnli and 1 more",
        ),
        (
            GAIN.format("mbert"),
            gains([1.0, 2.0, 3.0], model=XLMR),
            UNTESTED,
            f"this study has {XLMR} on pos",
        ),
        # Plenty of data, but nothing of what the claim is about, is not too little data.
        (
            "M17",
            recast(CASES["M9"][0], {MBERT: "world/encoder"}, TO_POS),
            UNTESTED,
            "about mBERT; this study has world/encoder on pos",
        ),
        # A comparison needs both models.
        (
            AGAINST,
            recast(CASES[AGAINST][0], {MBERT: MINE}),
            UNTESTED,
            "about mBERT, against XLM-R; this study has ",
        ),
        (
            AGAINST,
            recast(CASES[AGAINST][0], {XLMR: "xlm-roberta-large"}),
            HOLDS,
            "against xlm-roberta-large: ",
        ),
        (AGAINST, recast(CASES[AGAINST][0], {XLMR: MINE}), OPEN, ""),
        # The paper, too, takes BERT's numbers from the one before.
        (
            "M14",
            xnli({"layers top 2": 70, "layers bottom 2": 70, "layers middle 2": 60}),
            FAILS,
            ", against 0.28 % on mnli and qqp and qnli and sst2 of BERT as printed; ",
        ),
        # Of two models, those that were judged are named.
        (
            "C-count-POS",
            gains([1.0] * 11 + [-1.0]),
            UNSHOWN,
            f"on {MBERT}: 11 of 12 pairs gain (stated: 88 of 96)",
        ),
        # Tasks, too.
        ("W10", only("W10", task="sst2"), UNSHOWN, "on sst2: extra loss of the middle: sst2 3.00"),
        # XNLI is scored across languages, each source by itself.
        (
            "M11",
            CASES["M11"][0] + moved(CASES["M11"][1], source="de"),
            FAILS,
            " | on xnli from de: the bottom matters more in 10 of 11 languages",
        ),
        # A model that translates replaces no encoder.
        (
            "W2",
            recast(CASES["W2"][0], {BERT: TRANSLATOR}, {"wmt14": "mine"}),
            UNTESTED,
            f"about WMT14; this study has {TRANSLATOR} on mine",
        ),
        ("W3a", recast(CASES["W3a"][0], {BERT: TRANSLATOR}, {"wmt14": "mine"}), HOLDS, ""),
        ("W7", moved(only("W3a", target="en-ru"), **LEARNT), OPEN, ""),
        ("C-rand-vs-low", TRANSLATED, OPEN, ""),
        ("C-rand-vs-low", TAGGED, HOLDS, ""),
        ("L-random", TRANSLATED, HOLDS, ""),  # luck is the same everywhere
    ],
)
def test_what_is_judged_and_named(name, evidence, verdict, words):
    result = CLAIMS[name].on(evidence)
    assert result.verdict == verdict, result
    assert words in result.numbers
