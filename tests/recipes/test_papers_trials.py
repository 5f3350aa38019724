"""The recipes of the papers have the configurations that the papers list, written out by hand."""

from collections import Counter
from itertools import product
from math import prod

import pytest
from paper_recipes import counted, label_of, removals, trials_of

from deadhead.layout import HeadLayout
from deadhead.strategies import choose
from deadhead.studies import load
from deadhead.studies.trial import Removal

GLUE = ("mnli", "qqp", "qnli", "sst2")
RANDOM = [f"random {percent}" for percent in range(10, 100, 10)]
LAYERS = [f"layers {where} {k}" for where in ("top", "middle", "bottom") for k in (2, 4, 6, 8)]
LAYERS += ["layers odd 6", "layers even 6"]
TRANSFORMER = HeadLayout.grid(encoder=(6, 8), cross=(6, 8), decoder=(6, 8))
# Percent -> heads that go, of 144.
TABLE1 = {25: 36, 35: 51, 50: 72, 55: 78, 60: 87, 75: 108, 81: 117, 87: 126}
# Heads kept in layers 1-6 of encoder, cross, decoder: important layers keep more, then fewer.
TABLE2 = ("888444/444888/888444", "444888/888444/444888", "777322/233777/777332",
          "223777/777332/233777", "666222/222666/666222", "222666/666222/222666",
          "555211/112555/555211", "112555/555211/112555", "333111/111333/333111",
          "111333/333111/111333")  # fmt: skip
# Heads kept of 48 in encoder, cross, decoder; each component once has the fewest.
TABLE3 = ("14/31/30", "31/14/30", "30/31/14", "12/21/25", "21/12/25", "25/21/12",
          "8/13/15", "13/8/15", "15/13/8", "5/9/12", "9/5/12", "12/9/5")  # fmt: skip
ENDS = [f"layers {where} {k}" for k in (1, 3, 6, 8) for where in ("top", "bottom")]
MIDDLES = ["layers top 1 + bottom 1", "layers middle 2", "layers top 2 + bottom 2"]
MIDDLES += ["layers middle 4", "layers top 3 + bottom 3", "layers middle 6"]
MIDDLES += ["layers top 4 + bottom 4", "layers middle 8"]
TABLE6 = ["layers top 6", "layers bottom 6", "layers even 6", "layers odd 6"]
TABLE6 += ["layers top 3 + bottom 3", "layers middle 6"]
REMOVALS = {
    "weak-link/table1": [
        "none",
        *(f"random {percent} per={'layer' if percent == 87 else 'block'}" for percent in TABLE1),
    ],
    "weak-link/table2": ["none", *(f"per_layer {text}" for text in TABLE2)],
    "weak-link/table3": ["none", *(f"per_block {text}" for text in TABLE3)],
    "weak-link/table4": ["none", *RANDOM],
    "weak-link/table5": ["none", *ENDS, *MIDDLES],
    "weak-link/table6": TABLE6,
    "mbert-prunability/figure1": ["none", *RANDOM],
    "mbert-prunability/figure2": ["none", *LAYERS],
    "mbert-prunability/figure3": ["none", *RANDOM],
    "mbert-prunability/recovery": [*RANDOM, *LAYERS],
    "mbert-prunability/table1": [
        f"layers {where} 6" for where in ("top", "bottom", "middle", "odd", "even")
    ],
}
TRIALS = {
    "weak-link/table1": 2 + 8 * 3 * 2,  # two language pairs, three draws, none of them at 0 %
    "weak-link/table2": 1 + 10 * 3,
    "weak-link/table3": 1 + 12 * 3,
    "weak-link/table4": 4 + 9 * 3 * 4,
    "weak-link/table5": 17 * 4,
    "weak-link/table6": 6 * 4,
    "weak-link/figure2": 3 + 18,  # the sets of layers of tables 5 and 6 on MNLI
    "mbert-prunability/figure1": 2 * 112,  # BERT's are those of weak-link table 4
    "mbert-prunability/figure2": 5 * 15,  # XNLI is a task of its own, trained on MNLI
    "mbert-prunability/figure3": 1 + 9 * 3,
    "mbert-prunability/figure4": 3,
    "mbert-prunability/figure5": 1,
    "mbert-prunability/table1": 4 * 5,
    "mbert-prunability/recovery": 27 + 14,
    "contributions/table2": 3 * (1 + 8) * 13 * 2,  # sources, alone or with a target, two models
    "contributions/table3": 3 * (1 + 8) * 13 * 2,
    "contributions/table4": (1 + 8) * 13 * 2,
    "contributions/table5": 2 * (1 + 8) * (1 + 3 * 12),
    "contributions/table6": 5 * 2 * (1 + 12 * (1 + 1 + 4)),  # MD, SD, and EC's four
    "contributions/figure1": 9 * 3 * 2,
    "contributions/figure2": 7 * 9 * 13,  # targets, tenths of them; the paper leaves Urdu out
    "contributions/figure3": 8 * 9 * 13,
    "contributions/search": 6 * (1 + 4 * 12),
    "contributions/rankers": (3 + 24) * (1 + 3 * 12),
}
UNIONS = {
    "weak-link/figure1": ("weak-link/table1", "weak-link/table4"),
    "contributions/correlations": tuple(
        f"contributions/{name}" for name in ("table2", "table3", "table4", "figure1")
    ),
    "contributions/pooled": tuple(
        f"contributions/{name}" for name in ("table2", "table3", "table6", "figure2")
    ),
}
PARTS = [  # the trials of one are among those of the other
    ("weak-link/table4", "mbert-prunability/figure1"),
    ("mbert-prunability/table1", "mbert-prunability/figure2"),
]


@pytest.mark.parametrize("name", TRIALS)
def test_a_recipe_has_the_trials_of_its_table(name):
    assert len(trials_of(name)) == TRIALS[name]


@pytest.mark.parametrize("name", REMOVALS)
def test_a_recipe_removes_what_its_table_lists(name):
    assert removals(name) == REMOVALS[name]
    if name in ("weak-link/table2", "weak-link/table3"):  # mini has 6 + 6 layers of 8 heads too
        assert removals(name, "mini") == REMOVALS[name]


@pytest.mark.parametrize("name", UNIONS)
def test_a_union_has_the_trials_of_its_parts(name):
    assert {*trials_of(name)} == {trial for part in UNIONS[name] for trial in trials_of(part)}


@pytest.mark.parametrize(("part", "whole"), PARTS)
def test_a_part_is_in_the_whole(part, whole):
    assert {*trials_of(part)} < {*trials_of(whole)}


def test_headline_is_figures_1_and_3_without_bert():
    parts = [t for n in (1, 3) for t in trials_of(f"mbert-prunability/figure{n}")]
    theirs = {trial for trial in parts if trial.get("model") == "bert-base-multilingual-cased"}
    assert {*trials_of("mbert-prunability/headline")} == theirs


@pytest.mark.parametrize("draw", [0, 1, 2])
def test_table1_takes_the_same_number_of_heads_from_every_component(draw):
    for trial in trials_of("weak-link/table1"):
        if (removal := Removal.parse(trial.get("remove"))) and trial.get("draw") == draw:
            removed = choose(
                removal.strategy, TRANSFORMER, removal.amount, seed=draw, **removal.options
            )
            each = TABLE1[removal.amount] // 3
            assert Counter(head.block for head in removed) == dict.fromkeys(
                TRANSFORMER.blocks, each
            )
            if removal.amount == 87:  # one head is left in each of the 18 layers
                assert set(Counter((head.block, head.layer) for head in removed).values()) == {7}


@pytest.mark.parametrize("scale", [None, "mini"])
def test_the_translation_tables_share_their_models(scale):
    """114 trainings after pruning, as the paper says, of one model a language pair."""
    trials = [t for n in (1, 2, 3) for t in trials_of(f"weak-link/table{n}", scale)]
    if scale is None:
        assert len({trial for trial in trials if trial.get("remove")}) == 114
    assert len({trial.keys[0] for trial in trials}) == (2 if scale is None else 1)


def test_settings_of_the_trainings_of_bert():
    for name in ("table4", "table5", "table6", "figure2"):
        settings = [trial.get("finetune") for trial in trials_of(f"weak-link/{name}")]
        weights = "last" if name == "figure2" else "best"  # the change is of all ten epochs
        assert {(s["epochs"], s["batch"], s["weights"]) for s in settings} == {(10, 128, weights)}
    figure2 = trials_of("mbert-prunability/figure2")
    chosen = {
        (t.get("task"), t.get("finetune")["weights"], t.get("finetune")["scored"]) for t in figure2
    }
    assert chosen == {*((task, "best", "dev") for task in GLUE), ("xnli", "best", "mnli")}
    assert {t.get("finetune")["first"] for t in trials_of("mbert-prunability/recovery")} == {True}


def test_figures_4_and_5_measure_before_and_after():
    entropy, points = load("mbert-prunability/figure4"), load("mbert-prunability/figure5")
    assert counted(entropy, "remove", "measure", "task") == {("random 90", "entropy", "mnli"): 3}
    assert counted(points, "remove", "measure") == {("random 50", "embeddings"): 1}
    assert entropy.data["figures"][0]["show"] == "entropy_change"  # not its levels
    for trial in (*entropy.trials, *points.trials):
        assert trial.steps == ("prune", "measure", "finetune", "measure", "evaluate")
        assert trial.get("finetune")["first"]  # so there is a measure after one epoch as well


def test_figure2_of_weak_link_shows_six_of_the_prunings_it_measures():
    figure = ["random 10", "random 50", "random 90"]
    figure += ["layers top 3", "layers bottom 3", "layers odd 6"]
    recipe = load("weak-link/figure2")
    assert recipe.data["figures"][0]["where"]["remove"] == figure
    assert {*removals("weak-link/figure2")} == {*figure, *ENDS, *MIDDLES, *TABLE6}
    assert {t.steps for t in recipe.trials} == {("prune", "finetune", "measure", "evaluate")}


@pytest.mark.parametrize(
    "name",
    [
        *("weak-link/table4", "weak-link/table5", "weak-link/table6", "weak-link/figure2"),
        *(f"mbert-prunability/figure{number}" for number in range(1, 6)),
        *("mbert-prunability/table1", "mbert-prunability/recovery"),
    ],
)
def test_a_layer_of_bert_without_heads_adds_nothing(name):
    """Its feed-forward part reads the output of the layer before it."""
    for trial in trials_of(name):
        assert trial.get("prune") == ({"drop_output_bias": True} if trial.get("remove") else None)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("weak-link/grid", (8, 16, 32, 64, 128)), ("mbert-prunability/grid", (32, 64, 128))],
)
def test_the_grid_is_that_of_the_paper(name, sizes):
    recipe, rates = load(name), (2e-5, 3e-5, 4e-5, 5e-5)
    settings = [(trial.get("task"), trial.get("finetune")) for trial in recipe.trials]
    points = [(task, one["rate"], one["batch"], one["epochs"]) for task, one in settings]
    assert sorted(points) == sorted(product(GLUE, rates, sizes, [10]))
    assert {label_of(trial.get("remove")) for trial in recipe.trials} == {"none"}
    assert {trial.get("splits")[0] for trial in recipe.trials} == {"dev"}


# The searches of contributions

SOURCES = ("en", "zh", "ar")
NINE = ("en", "de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")
FIVE = ("en", "de", "ar", "he", "zh")


def learnt(trial):
    languages = trial.get("train", trial.get("source"))
    return (languages,) if isinstance(languages, str) else tuple(languages)


def order(trial):
    return next(iter(trial.get("remove") or {"none": 0}))


@pytest.mark.parametrize(
    ("name", "sources", "languages"),
    [("table2", SOURCES, NINE), ("table3", SOURCES, NINE), ("table4", ("en",), ATIS)],
)
def test_a_search_is_on_the_source_alone_and_with_each_other_language(name, sources, languages):
    trials = trials_of(f"contributions/{name}")
    pairs = {(source, other) for source in sources for other in languages if other != source}
    assert {learnt(trial) for trial in trials} == pairs | {(source,) for source in sources}
    assert {(trial.get("remove") or {}).get("lowest", 0) for trial in trials} == {*range(13)}
    alone = [trial for trial in trials if len(learnt(trial)) == 1]
    assert len(alone) == len(sources) * 13 * 2
    for trial in trials:
        if trial.get("remove"):  # heads are ranked on the source alone
            assert trial.steps == ("finetune", "rank", "restart", "prune", "finetune", "evaluate")
            assert trial.languages(0) == trial.languages(1) == [trial.get("source")]
            assert trial.languages(4) == list(learnt(trial))
    assert len({t.keys[1] for t in trials if t.get("remove")}) == len(sources) * 2


def test_table5_adds_the_highest_and_random_heads():
    trials = trials_of("contributions/table5")
    counts = Counter(map(order, trials))
    assert counts["highest"] + counts["random_k"] == prod((2, 2, 12, 1 + 8))
    assert {trial.get("draw") for trial in trials if order(trial) == "random_k"} == {42}
    rest = {trial for trial in trials if order(trial) in ("none", "lowest")}
    others = {*trials_of("contributions/table2"), *trials_of("contributions/table3")}
    assert rest < others


def test_table6_merges_the_rankings_of_all_but_one():
    trials = trials_of("contributions/table6")
    assert {learnt(trial) for trial in trials} == {
        tuple(x for x in FIVE if x != left) for left in FIVE
    }
    pruned = [trial for trial in trials if trial.get("remove")]
    merged = [trial for trial in pruned if isinstance(trial.get("source"), list)]
    single = [trial for trial in pruned if isinstance(trial.get("source"), str)]
    assert Counter(t.get("rank")["merge"] for t in merged) == dict.fromkeys(("md", "sd"), 120)
    assert all(trial.get("source") in learnt(trial) for trial in single)
    ranked = {key for trial in pruned for key in trial.work}  # each language once a task
    assert len(ranked) == 5 * 2 * 2 + len({trial.keys[0] for trial in pruned})


@pytest.mark.parametrize("name", ["figure2", "figure3"])
def test_low_resource_figures_take_tenths_of_the_target(name):
    trials = trials_of(f"contributions/{name}")
    parts = {(learnt(t)[1], *next(iter(t.get("data")["parts"].items()))) for t in trials}
    assert all(target == cut for target, cut, _ in parts)
    targets = {target for target, _, _ in parts}
    assert parts == {(target, target, n) for target in targets for n in range(1, 10)}
    assert ("ur" in targets) == (name == "figure3")
    assert len({t.keys[1] for t in trials if t.get("remove")}) == 1  # one ranking, on English


def test_figure1_ranks_and_does_nothing_else():
    trials = trials_of("contributions/figure1")
    assert {trial.steps for trial in trials} == {("finetune", "rank")}
    assert {trial.get("source") for trial in trials if trial.get("task") == "slots"} == {*ATIS}


def test_rankers():
    """Every search of table 3 with multilingual BERT, by each ranking, with shared baselines."""
    trials = trials_of("contributions/rankers")
    ranks = {(rank["method"], rank.get("rule")) for t in trials if (rank := t.get("rank"))}
    assert ranks == {("gradient", None), ("lrp", "alpha-beta"), ("lrp", "epsilon")}
    theirs = trials_of("contributions/table3")
    assert {t for t in theirs if t.get("model") == "bert-base-multilingual-cased"} < {*trials}


@pytest.mark.parametrize("name", [name for name in TRIALS if name.startswith("contributions/")])
def test_every_training_is_the_papers(name):
    expected = {"epochs": 3, "rate": 5e-5, "sampler": "sequential"}
    seeds = (42,) if name != "contributions/search" else None
    for trial in trials_of(name):
        assert expected.items() <= trial.get("finetune").items()
        assert seeds is None or trial.get("seed") in seeds
