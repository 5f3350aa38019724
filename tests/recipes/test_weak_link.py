"""The weak-link recipes have the configurations that the paper lists, written out by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from paper_recipes import counted, removals

from deadhead.layout import Attention, HeadLayout
from deadhead.strategies import choose
from deadhead.studies import load
from deadhead.studies.trial import Removal

GLUE = ("mnli", "qqp", "qnli", "sst2")
PERCENT = (10, 20, 30, 40, 50, 60, 70, 80, 90)
TRANSFORMER = HeadLayout(
    Attention(block=block, layer=layer, size=8, kept=tuple(range(8)), width=64)
    for block in ("encoder", "cross", "decoder")
    for layer in range(6)
)
TABLE1 = {
    25: 36,
    35: 51,
    50: 72,
    55: 78,
    60: 87,
    75: 108,
    81: 117,
    87: 126,
}  # percent -> heads that go, of 144
# Percent -> heads kept in layers 1-6 of encoder, cross, decoder: important layers keep more; fewer.
TABLE2 = {
    25: ("888444/444888/888444", "444888/888444/444888"),
    40: ("777322/233777/777332", "223777/777332/233777"),
    50: ("666222/222666/666222", "222666/666222/222666"),
    60: ("555211/112555/555211", "112555/555211/112555"),
    75: ("333111/111333/333111", "111333/333111/111333"),
}
# Percent -> heads kept of 48 in encoder, cross, decoder; each component once has the fewest.
TABLE3 = {
    48: ("14/31/30", "31/14/30", "30/31/14"),
    60: ("12/21/25", "21/12/25", "25/21/12"),
    75: ("8/13/15", "13/8/15", "15/13/8"),
    82: ("5/9/12", "9/5/12", "12/9/5"),
}
TABLE5 = (
    *("none", "layers top 1", "layers bottom 1", "layers top 3", "layers bottom 3"),
    *("layers top 6", "layers bottom 6", "layers top 8", "layers bottom 8"),
    *("layers top 1 + bottom 1", "layers middle 2", "layers top 2 + bottom 2", "layers middle 4"),
    *("layers top 3 + bottom 3", "layers middle 6", "layers top 4 + bottom 4", "layers middle 8"),
)
TABLE6 = (
    "layers top 6",
    "layers bottom 6",
    "layers even 6",
    "layers odd 6",
    "layers top 3 + bottom 3",
    "layers middle 6",
)


def test_table1() -> None:
    """Nine percentages, two language pairs, three draws, none of them at 0 %: 2 + 8 x 3 x 2."""
    recipe = load("weak-link/table1")
    assert removals("weak-link/table1") == [
        "none",
        *(f"random {p} per={'layer' if p == 87 else 'block'}" for p in TABLE1),
    ]
    assert len(recipe.trials) == 2 + 8 * 3 * 2
    assert counted(recipe, "source") == {("en-ru",): 25, ("en-de",): 25}
    assert {trial.get("model") for trial in recipe.trials} == {"transformer-base"}


@pytest.mark.parametrize("draw", [0, 1, 2])
def test_table1_takes_the_same_number_of_heads_from_every_component(draw: int) -> None:
    for trial in load("weak-link/table1").trials:
        if (removal := Removal.parse(trial.get("remove"))) and trial.get("draw") == draw:
            percent = removal.amount
            removed = choose(removal.strategy, TRANSFORMER, percent, seed=draw, **removal.options)
            assert Counter(head.block for head in removed) == dict.fromkeys(
                ("encoder", "cross", "decoder"), TABLE1[percent] // 3
            )
            if percent == 87:  # one head is left in each of the 18 layers
                assert set(Counter((head.block, head.layer) for head in removed).values()) == {7}
            if percent == 81:  # nine are left in each component
                assert len(removed) == 144 - 27


def test_table2() -> None:
    """Ten strings, three draws, and the unpruned model: 1 + 10 x 3, all English to Russian."""
    strings = [string for both in TABLE2.values() for string in both]
    assert removals("weak-link/table2") == ["none", *(f"per_layer {string}" for string in strings)]
    recipe = load("weak-link/table2")
    assert len(recipe.trials) == 1 + 10 * 3
    assert counted(recipe, "source") == {("en-ru",): 31}


def test_table2_strings_keep_what_they_say() -> None:
    for percent, both in TABLE2.items():
        removed = [len(choose("per_layer", TRANSFORMER, string)) for string in both]
        assert removed[0] == removed[1]  # the two of a row differ in where, not in how many
        assert (
            abs(100 * removed[0] / 144 - percent) < 2.6
        )  # the paper rounds: 40 % is 41.7 %, 60 % is 60.4 %


def test_table3() -> None:
    """Twelve triples, three draws, and the unpruned model: 1 + 12 x 3."""
    triples = [triple for three in TABLE3.values() for triple in three]
    assert removals("weak-link/table3") == ["none", *(f"per_block {triple}" for triple in triples)]
    assert len(load("weak-link/table3").trials) == 1 + 12 * 3
    for percent, three in TABLE3.items():
        for fewest, triple in zip(("encoder", "cross", "decoder"), three, strict=True):
            removed = Counter(head.block for head in choose("per_block", TRANSFORMER, triple))
            assert max(removed, key=removed.__getitem__) == fewest
            assert abs(100 * removed.total() / 144 - percent) < 0.5


def test_the_translation_tables_share_their_models() -> None:
    """114 trainings after pruning, as the paper says; unpruned models are trained as long."""
    pruned = {
        trial.id
        for name in ("table1", "table2", "table3")
        for trial in load(f"weak-link/{name}").trials
        if trial.get("remove")
    }
    whole = {
        trial.id
        for name in ("table1", "table2", "table3")
        for trial in load(f"weak-link/{name}").trials
        if not trial.get("remove")
    }
    assert (len(pruned), len(whole)) == (114, 2)
    models = {
        trial.keys[0]
        for name in ("table1", "table2", "table3")
        for trial in load(f"weak-link/{name}").trials
    }
    assert len(models) == 2  # one model a language pair is trained from scratch


def test_the_mini_tables_share_their_model_too() -> None:
    models = {
        trial.keys[0]
        for name in ("table1", "table2", "table3", "figure1")
        for trial in load(f"weak-link/{name}", scale="mini").trials
        if "pretrain" in trial.steps
    }
    assert len(models) == 1


def test_table4() -> None:
    """Four baselines and nine percentages x three draws x four tasks: 112."""
    recipe = load("weak-link/table4")
    assert removals("weak-link/table4") == ["none", *(f"random {p}" for p in PERCENT)]
    assert len(recipe.trials) == 4 + 9 * 3 * 4
    assert counted(recipe, "task") == dict.fromkeys([(task,) for task in GLUE], 28)
    assert counted(recipe, "draw") == {("none",): 4, (0,): 36, (1,): 36, (2,): 36}
    settings = [trial.get("finetune") for trial in recipe.trials]
    assert {(s["epochs"], s["batch"], s["weights"]) for s in settings} == {(10, 128, "best")}


def test_tables_5_and_6() -> None:
    """17 and 6 rows: 18 different sets of layers and the baselines of table 4, 184 trainings."""
    assert removals("weak-link/table5") == list(TABLE5)
    assert removals("weak-link/table6") == list(TABLE6)
    assert len(load("weak-link/table5").trials) == 17 * 4
    assert len(load("weak-link/table6").trials) == 6 * 4
    trials = {
        trial.id
        for name in ("table4", "table5", "table6")
        for trial in load(f"weak-link/{name}").trials
    }
    assert len(trials) == 4 + 108 + 18 * 4 == 184


def test_figure1_is_tables_1_and_4() -> None:
    parts = [load(f"weak-link/{name}") for name in ("table1", "table4")]
    assert {t.id for t in load("weak-link/figure1").trials} == {
        t.id for part in parts for t in part.trials
    }
    assert len(load("weak-link/figure1").trials) == 50 + 112


def test_figure2_measures_every_set_of_layers() -> None:
    """The figure shows six prunings of MNLI; the test between layers is of tables 5 and 6."""
    figure = [
        "random 10",
        "random 50",
        "random 90",
        "layers top 3",
        "layers bottom 3",
        "layers odd 6",
    ]
    recipe = load("weak-link/figure2")
    assert recipe.data["figures"][0]["where"]["remove"] == figure
    assert {*removals("weak-link/figure2")} == {*figure, *TABLE5, *TABLE6} - {"none"}
    assert counted(recipe, "task", "measure") == {("mnli", "weights"): 3 + 18}


def test_figure2_measures_the_weights_after_ten_epochs() -> None:
    """Not those of the best epoch: the change of weights is that of the whole fine-tuning."""
    trials = load("weak-link/figure2").trials
    assert {(t.get("finetune")["epochs"], t.get("finetune")["weights"]) for t in trials} == {
        (10, "last")
    }
    assert {t.steps for t in trials} == {("prune", "finetune", "measure", "evaluate")}


def test_a_layer_of_bert_without_heads_adds_nothing() -> None:
    """Section 3.3: its feed-forward part reads the output of the layer before it."""
    for name in ("table4", "table5", "table6", "figure2"):
        for trial in load(f"weak-link/{name}").trials:
            assert trial.get("prune") == (
                {"drop_output_bias": True} if trial.get("remove") else None
            )


@pytest.mark.parametrize("name", ["table2", "table3"])
def test_mini_keeps_every_configuration(name: str) -> None:
    """The small Transformer has 6 + 6 layers of 8 heads too, so strings are the paper's."""
    assert removals(f"weak-link/{name}", "mini") == removals(f"weak-link/{name}")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("weak-link/grid", (8, 16, 32, 64, 128)), ("mbert-prunability/grid", (32, 64, 128))],
)
def test_the_grid_is_that_of_the_paper(name: str, sizes: tuple[int, ...]) -> None:
    recipe, rates = load(name), (2e-5, 3e-5, 4e-5, 5e-5)
    trials = 4 * len(rates) * len(sizes)
    assert len(recipe.trials) == trials
    for task in GLUE:
        settings = [t.get("finetune") for t in recipe.trials if t.get("task") == task]
        points = [(one["rate"], one["batch"], one["epochs"]) for one in settings]
        assert points == [(rate, size, 10) for rate in rates for size in sizes]
    assert counted(recipe, "remove") == {("none",): trials}
    assert {trial.get("splits")[0] for trial in recipe.trials} == {"dev"}
