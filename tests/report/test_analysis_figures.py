"""Figures of the analyses, of studies written by hand: every number drawn is worked out here."""

import pytest
from by_hand import HEADS, done, study
from test_figures import valid, values

from deadhead.report.figures import gains
from deadhead.report.figures.build import figures
from deadhead.studies.store.records import Record

LAYERS = """\
steps: [prune, finetune, measure, evaluate]
fixed: {model: a/model, task: xnli, source: en, targets: [en, de, ar], splits: dev, \
finetune: {first: true}, measure: [weights]}
axes: {remove: [none, {layers: [top 1, bottom 1, top 2, bottom 2]}]}
"""
# by language: unpruned, then without top 1, bottom 1, top 2, bottom 2
SCORES = {
    "en": (0.8, 0.76, 0.72, 0.72, 0.64),
    "de": (0.5, 0.5, 0.45, 0.5, 0.4),
    "ar": (0.5, 0.45, 0.5, 0.4, 0.5),
}
ORDER = ("none", "top 1", "bottom 1", "top 2", "bottom 2")


def layered(trial, labels):
    at = ORDER.index((trial.get("remove") or {"layers": "none"})["layers"])
    metrics = {f"{language}/dev/accuracy": scores[at] for language, scores in SCORES.items()}
    metrics |= {
        f"{language}/dev@1/accuracy": scores[at] * (0.9 if language == "en" else 0.5)
        for language, scores in SCORES.items()
    }
    moved = {head: 1.0 + at if head.startswith("encoder.0") else 3.0 for head in HEADS}
    moved["encoder.1.0"] = 7.0  # so the mean of layer 1 is (7 + 3 x 3) / 4
    return done(trial, metrics, details={"measures": {"after": {"weights": moved}}})


def drawn_rows(folder, figure, recipe=LAYERS, outcome=layered):
    (charts,) = figures(study(folder, recipe + f"figures: [{figure}]\n", outcome))
    valid(charts["spec"])
    assert charts["note"]
    return values(charts)


# en loses 5 and 10 % without top 1 and 2, 10 and 20 without bottom; of SVO it is one of two.
CLASSES = {("SVO", 1): 7.5, ("SVO", 2): 15, ("VSO", 1): -10, ("VSO", 2): -20}
EACH = {("en", 1): 5, ("en", 2): 10, ("de", 1): 10, ("de", 2): 20}


@pytest.mark.parametrize(
    ("options", "lines"), [("group: word_order", CLASSES), ("where: {language: [en, de]}", EACH)]
)
def test_top_against_bottom(tmp_path, options, lines):
    rows = drawn_rows(tmp_path, f"{{kind: ends, {options}}}")
    assert {(row["line"], row["x"]): row["y"] for row in rows} == lines


def test_recovery_is_of_the_pruned_trials(tmp_path):
    rows = {row["language"]: row for row in drawn_rows(tmp_path, "{kind: recovery}")}
    assert [rows[language]["share"] for language in ("en", "de", "ar")] == [90, 50, 50]
    assert rows["en"]["n"] == 4  # not the unpruned one
    assert rows["en"]["final"] == pytest.approx(100 * (0.76 + 0.72 + 0.72 + 0.64) / 4)


def test_means_of_layers(tmp_path):
    rows = drawn_rows(
        tmp_path,
        "{kind: layers, show: weights, lines: remove, where: {remove: [layers top 1, layers "
        "bottom 1]}}",
    )
    assert {(row["line"], row["x"]): row["y"] for row in rows} == {
        ("layers top 1", 0): 2, ("layers top 1", 1): 4,
        ("layers bottom 1", 0): 3, ("layers bottom 1", 1): 4,
    }  # fmt: skip


SEARCHES = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, targets: [en, de, zh, ar], splits: [test]}
axes: {source: [en, de, zh, ar]}
search: {lowest: 1..2}
"""
GAINS = {
    ("en", "de"): 0.01,
    ("en", "zh"): 0.03,
    ("en", "ar"): 0.02,
}  # by pair with English, either way


def searched(trial, labels):
    source = str(labels["source"])
    gained = {t: GAINS.get((source, t)) or GAINS.get((t, source)) or 0.0 for t in SEARCH_LANGUAGES}
    metrics = {
        f"{t}/test/micro_f1": 0.5 + (gained[t] if labels["k"] == 2 else 0.0)
        for t in SEARCH_LANGUAGES
    }
    turned = (
        HEADS if source != "zh" else tuple(reversed(HEADS))
    )  # Chinese ranks them the other way round
    ranking = {
        "method": "gradient",
        "languages": [source],
        "scores": {head: float(i) for i, head in enumerate(turned)},
    }
    return Record(
        trial=trial,
        state="done",
        removed=HEADS[: labels["k"]],
        metrics=metrics,
        details={"ranking": ranking},
    )


SEARCH_LANGUAGES = ("en", "de", "zh", "ar")


def test_gains_against_distance_and_likeness(tmp_path, monkeypatch):
    apart = {"de": 0.1, "zh": 0.3, "ar": 0.2}
    monkeypatch.setattr(
        gains,
        "distances",
        lambda s, t, names: {names[0]: apart.get(t, 0.0) if s == "en" else float("nan")},
    )
    rows = drawn_rows(tmp_path, "{kind: gains}", SEARCHES, searched)
    far = [row for row in rows if row["panel"].startswith("URIEL")]
    assert {row["pair"]: (row["x"], row["y"]) for row in far} == {
        "en to de": (0.1, 1),
        "en to zh": (0.3, 3),
        "en to ar": (0.2, 2),
    }
    assert {row["panel"] for row in far} == {
        "URIEL distance, cross-lingual, rho +1.00; p 0.33; n 3"  # one line for each label
    }  # 2 of 6 orders are as clear
    likeness = {row["pair"]: row["x"] for row in rows if row["panel"].startswith("likeness")}
    assert len(likeness) == 12
    assert {pair for pair, rho in likeness.items() if rho == -1} == {
        pair for pair in likeness if "zh" in pair
    }
    assert {rho for pair, rho in likeness.items() if "zh" not in pair} == {1}


def test_nothing_to_draw(tmp_path):
    """A study without layers, a first epoch, weights or searches has none of them."""
    recipe = (
        "steps: [prune, finetune, evaluate]\n"
        "fixed: {model: a/m, task: mnli, source: en, splits: dev}\n"
        "axes: {remove: {random: [0, 50]}}\n"
    )
    kinds = "figures: [{kind: ends}, {kind: recovery}, {kind: layers}, {kind: gains}]\n"
    assert not figures(
        study(tmp_path, recipe + kinds, lambda trial, _: done(trial, {"en/dev/accuracy": 0.5}))
    )
