"""Rankings: order and ties, files, likeness, heat maps, merging. No torch anywhere."""

import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import rankdata

from deadhead.errors import DataError, HeadError, MissingExtra, UnknownName
from deadhead.layout import Head, HeadLayout
from deadhead.rankers.merge import MERGES, merge
from deadhead.ranking import Ranking, correlations
from deadhead.ranking.scores import normalised, spread, unit_layers

LAYOUT = HeadLayout.grid(encoder=(3, 4))
numbers = st.lists(
    st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 3)), min_size=12, max_size=12
)


def ranking(values, layout=LAYOUT, **fields):
    scores = {head: float(value) for head, value in zip(layout, values, strict=True)}
    return Ranking(scores=scores, layout=layout, **{"method": "gradient", "raw": scores, **fields})


def test_order_and_ties():
    example = ranking([1, 0, 0, 2, 0, 5, 5, 1, 3, 3, 0, 0])
    assert [str(h) for h in example.lowest(6)] == [
        f"encoder.{p}" for p in ("0.1", "0.2", "1.0", "2.2", "2.3", "0.0")
    ]
    assert [str(h) for h in example.highest(3)] == ["encoder.1.1", "encoder.1.2", "encoder.2.0"]
    assert example.lowest(0) == ()
    for wrong in (-1, 13):
        with pytest.raises(HeadError, match="12 have a score"):
            example.lowest(wrong)


def test_matrix_has_nan_where_there_is_no_score():
    removed = [Head("encoder", 1, 2)]
    example = Ranking(
        scores={head: 1.0 for head in LAYOUT if head not in removed},
        layout=LAYOUT,
        method="ablation",
    )
    assert np.argwhere(np.isnan(example.matrix())).tolist() == [[1, 2]]
    assert np.isnan(example.matrix(raw=True)).all()
    with pytest.raises(HeadError, match="no score"):
        example["encoder.1.2"]
    with pytest.raises(HeadError, match=r"ranking\.matrix\('encoder'\)"):
        ranking(range(4), HeadLayout.grid(encoder=(2, 1), cross=(2, 1))).matrix()


@given(numbers)
def test_lowest_and_highest_are_two_ends_of_one_order(values):
    example = ranking(values)
    assert sorted(example.scores.values()) == [example[h] for h in example.order]
    for k in (1, 5, 12):
        assert max(example[h] for h in example.lowest(k)) <= min(
            [example[h] for h in example.order[k:]] or [math.inf]
        )
        assert min(example[h] for h in example.highest(k)) >= max(
            [example[h] for h in example.order[: 12 - k]] or [-math.inf]
        )


def test_saved_and_loaded_it_is_the_same(tmp_path):
    example = ranking(
        np.random.default_rng(0).normal(size=12), model="m", options={"unit": "per_token"},
        data={"lang": "de"}, seed=3, versions={"torch": "2"}, details={"loss": 0.5},
    )  # fmt: skip
    path = example.save(tmp_path / "deep" / "ranking.json")
    assert Ranking.load(path) == example
    assert os.listdir(path.parent) == ["ranking.json"]
    assert Ranking.load(ranking(range(12), raw=None).save(tmp_path / "x.json")).raw is None


STORED = json.dumps(ranking(range(12)).to_dict())
DAMAGED = {  # the text of a file, and the words of the error
    "{": "cannot be read",
    "[]": "not a ranking",
    '{"format": 99}': "got 99",
    '{"format": 1}': "damaged",
    STORED.replace("encoder.0.0", "encoder.x.1"): "damaged",
    STORED.replace("encoder.0.0", "coder.0.0"): "scores of coder, which the layout does not have",
}


@pytest.mark.parametrize(("text", "words"), DAMAGED.items(), ids=DAMAGED.values())
def test_damaged_files_are_named(tmp_path, text, words):
    path = tmp_path / "bad.json"
    with pytest.raises(DataError, match="no ranking at"):
        Ranking.load(path)
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        Ranking.load(path)


def test_plot(monkeypatch):
    chart = ranking(range(12)).plot("the heads").to_dict()
    assert chart["title"] == "the heads"
    assert str(chart).count("'score'") >= 12
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[report\]"):
        ranking(range(12)).plot()


def test_spearman_uses_the_heads_both_have():
    a = ranking(range(12))
    fewer = Ranking(
        scores={h: -s for h, s in a.scores.items() if h.layer}, layout=LAYOUT, method="gradient"
    )
    assert a.spearman(fewer)[::2] == (pytest.approx(-1), 8)
    with pytest.raises(HeadError, match=r"encoder 3 x 4, .* has decoder 3 x 4"):
        a.spearman(ranking(range(12), HeadLayout.grid(decoder=(3, 4))))
    with pytest.raises(HeadError, match=r"3 heads in common.* have 2"):
        a.spearman(
            Ranking(scores=dict(list(a.scores.items())[:2]), layout=LAYOUT, method="gradient")
        )
    assert np.allclose(correlations([a, fewer, a]), [[1, -1, 1], [-1, 1, -1], [1, -1, 1]])


def test_scaling():
    scores = {head: float(i) for i, head in enumerate(LAYOUT)}
    for layer in range(3):
        assert sum(
            s * s for h, s in unit_layers(scores).items() if h.layer == layer
        ) == pytest.approx(1)
    assert set(unit_layers(dict.fromkeys(LAYOUT, 0.0)).values()) == {0.0}
    assert set(spread(dict.fromkeys(LAYOUT, 3.0)).values()) == {0.0}
    for wrong in (math.nan, math.inf):  # never hidden behind a 0
        assert all(
            map(math.isnan, spread({**scores, LAYOUT.attentions[0].heads[0]: wrong}).values())
        )
    assert (min(spread(scores).values()), max(spread(scores).values())) == (0, 1)


def raw_ranking(raw, lang):
    measured = dict(zip(LAYOUT, map(float, raw), strict=True))
    return Ranking(
        scores=normalised(measured),
        layout=LAYOUT,
        method="gradient",
        raw=measured,
        data={"lang": lang},
        model="m",
    )


@given(numbers, numbers)
def test_merging_is_that_of_a_8(first, other):
    first, other = np.abs(first) + 0.1, np.abs(other) + 0.1
    a, b = raw_ranking(first, "en"), raw_ranking(other, "zh")
    assert merge([a, b], "md").scores == normalised(dict(zip(LAYOUT, first + other, strict=True)))
    assert merge([a, b], "sd").scores == pytest.approx({h: a[h] + b[h] for h in LAYOUT})
    assert merge([a, b], "maximum").scores == {h: max(a[h], b[h]) for h in LAYOUT}
    mean = np.mean([rankdata(list(r.scores.values())) for r in (a, b)], axis=0)
    assert list(merge([a, b], "ranks").scores.values()) == pytest.approx(mean.tolist())


@pytest.mark.parametrize("how", sorted(MERGES))
def test_one_ranking_merged_keeps_its_order(how):
    a = raw_ranking(np.random.default_rng(1).uniform(size=12), "en")
    assert merge([a], how).order == a.order


def test_what_cannot_be_merged():
    a = raw_ranking(range(12), "en")
    with pytest.raises(UnknownName, match="Did you mean 'md'"):
        merge([a], "mdd")
    with pytest.raises(DataError, match="no ranking"):
        merge([])
    with pytest.raises(DataError, match="not on one scale"):
        merge([a, ranking(range(12), method="ablation")], "sd")
    assert merge([a, ranking(range(12), method="ablation")], "ranks").method == "ablation+gradient"
    means = ranking(range(12), options={"unit": "per_example", "normalize": True})
    totals = ranking(range(12), options={"unit": "cumulative"})
    for how in ("md", "sd", "maximum"):
        with pytest.raises(DataError, match="unit"):
            merge([means, totals], how)
        assert merge([totals, totals], how).options == {"unit": "cumulative"}
    assert merge([means, totals], "ranks").options == {}
    with pytest.raises(DataError, match="has no values before scaling"):
        merge([a, ranking(range(12), raw=None)], "md")
    with pytest.raises(
        DataError, match="entropy does not measure"
    ):  # its raw values even point the other way
        merge([ranking(range(12), method="entropy")], "md")
    fewer = Ranking(scores={h: 1.0 for h in LAYOUT if h.layer}, layout=LAYOUT, method="gradient")
    with pytest.raises(HeadError, match="only one of these"):
        merge([a, fewer], "sd")


def test_terminal_heat_map():
    example = Ranking(
        scores={head: float(i) for i, head in enumerate(LAYOUT) if i != 5},
        layout=LAYOUT,
        method="gradient",
    )
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(example)
    lines = console.export_text().splitlines()
    assert lines[0] == "gradient: 11 heads, 0 (00) to 11 (99)"
    assert lines[2].split() == ["0", "00", "09", "18", "27"]
    assert lines[3].split() == ["1", "36", ".", "54", "63"]
    assert lines[4].split()[-1] == "99"
