"""Faithfulness: its ends, runs by hand, the areas of MIB, controls, and bad input."""

import json
import math

import numpy as np
import pytest
import torch

from deadhead import captured, discover, edge_effects, faithfulness, gated, rank
from deadhead.effects import Edge, Faithfulness
from deadhead.effects.paths import edge_runs
from deadhead.effects.stream import Nodes
from deadhead.errors import DeadheadError
from deadhead.forward import forward
from deadhead.rankers.batches import check_pairs
from near_pairs import difference, near_pair

FRACTIONS = (0, 0.1, 0.5, 1)


def curve(values, **more):
    """A result with this curve."""
    count = len(values)
    zeros = (0.0,) * count
    return Faithfulness(
        **{
            "fractions": tuple(np.linspace(0, 1, count).tolist()),
            "sizes": tuple(range(count)),
            "curve": tuple(values),
            **dict.fromkeys(("low", "high", "reverse"), zeros),
            "random": (zeros, tuple(values)),
            "clean": 1.0,
            "empty": 0.0,
            "examples": 2,
            "kind": "heads",
            **more,
        }
    )


def test_the_areas_are_those_of_the_benchmark():
    result = curve([0.0, 1.5, 1.0])
    assert result.cpr == pytest.approx((0 + 1.5) / 4 + (1.5 + 1) / 4)
    assert result.cmd == pytest.approx((1 + 0.5) / 4 + (0.5 + 0) / 4)
    assert result.controls["random"] == {
        "cpr": pytest.approx(result.cpr / 2),
        "cmd": pytest.approx((result.cmd + 1) / 2),
    }
    assert math.isnan(curve([1.0]).cpr)


@pytest.mark.parametrize("family", ["bert", "bart"])
def test_the_curve_of_heads_is_what_gates_by_hand_give(family):
    model, clean, corrupt = near_pair(family, 1.0)
    heads = [*discover(model)]
    scores = {head: (number * 7) % len(heads) - len(heads) / 2 for number, head in enumerate(heads)}
    result = faithfulness(
        model, scores, clean, corrupt, difference, fractions=FRACTIONS, random=2, progress=False
    )
    order = sorted(scores, key=lambda head: -abs(scores[head]))
    with torch.no_grad(), captured(model) as fill:
        forward(model, corrupt)

    @torch.no_grad()
    def kept(heads_kept):
        with gated(model, closed=set(heads).difference(heads_kept), fill=fill):
            return float(difference(forward(model, clean), clean).mean())

    full, empty = kept(heads), kept([])
    for fraction, value, other in zip(FRACTIONS, result.curve, result.reverse, strict=True):
        size = round(fraction * len(heads))
        expected = (kept(order[:size]) - empty) / (full - empty)
        assert value == pytest.approx(expected, abs=1e-9)
        reverse = (kept(order[::-1][:size]) - empty) / (full - empty)
        assert other == pytest.approx(reverse, abs=1e-9)
    assert (result.curve[0], result.curve[-1]) == (0, 1)
    assert result.curve != result.reverse
    assert all(low <= high for low, high in zip(result.low, result.high, strict=True))
    signed = faithfulness(
        model,
        scores,
        clean,
        corrupt,
        difference,
        fractions=FRACTIONS,
        absolute=False,
        progress=False,
    )
    assert signed.curve != result.curve


def test_the_curve_of_edges_corrupts_all_others():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    edges = edge_effects(model, clean, corrupt, difference, progress=False)
    result = faithfulness(
        model, edges, clean, corrupt, difference, fractions=FRACTIONS, random=1, progress=False
    )
    assert result.kind == "edges"
    assert result.sizes == (0, 11, 55, 110)
    with edge_runs(Nodes(model), check_pairs(clean, corrupt), difference) as runs:
        patched = runs.exists.clone()
        for edge in edges.highest(11):
            patched[edges.targets.index(edge.target), edges.sources.index(edge.source)] = False
        value, empty = float(runs(patched).mean()), float(runs.corrupt.mean())
        full = float(runs.clean.mean())
    assert result.empty == pytest.approx(empty)
    assert result.curve[1] == pytest.approx((value - empty) / (full - empty))
    listed = [*edges.highest(11)]
    for circuit in (listed, [str(edge) for edge in listed], edges.highest(11)):
        alone = faithfulness(model, circuit, clean, corrupt, difference, random=1, progress=False)
        assert alone.sizes == (11,)
        assert alone.curve[0] == pytest.approx(result.curve[1])
        assert alone.random[0] != alone.curve


def test_a_seed_gives_the_same_controls_and_another_one_others():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    scores = rank(model, [clean], "attribution", loss=difference, corrupt=[corrupt], progress=False)
    first, again, other = (
        faithfulness(model, scores, clean, corrupt, difference, seed=seed, progress=False)
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first.curve == other.curve
    assert first.random != other.random
    assert len(first.random) == 5


def test_a_result_is_a_table_a_file_and_a_plot(tmp_path):
    result = curve([0.0, 1.5, 1.0])
    frame = result.frame()
    assert [*frame["faithfulness"]] == [0.0, 1.5, 1.0]
    assert [*frame["random_mean"]] == [0.0, 0.75, 0.5]
    stored = json.loads(result.save(tmp_path / "circuit.json").read_text())
    assert stored["cpr"] == result.cpr
    assert stored["curve"] == [0.0, 1.5, 1.0]
    assert "CMD" in result.plot().to_dict()["title"]


def test_bad_input_gets_an_error_that_names_the_way_out():
    model, clean, corrupt = near_pair("gpt2", 1.0)
    heads = [*discover(model)]

    def refused(scores, match, first=clean, second=corrupt, **more):
        with pytest.raises(DeadheadError, match=match) as error:
            faithfulness(model, scores, first, second, difference, progress=False, **more)
        assert error.value.hint

    refused({heads[0]: 1.0}, "no score")
    refused({**dict.fromkeys(heads, 1.0), heads[0]: math.nan}, "1 heads of the model have no score")
    for single in ("decoder.0.3", heads[0], Edge("decoder.0.0", "output"), None, 3):
        refused(single, "expected scores, or a list of heads or edges, got")
    refused(["decoder.0.3", "decoder.9.0"], "expected a layer of decoder, got 9")
    refused([], "nothing to keep")
    every = dict.fromkeys(heads, 1.0)
    for fractions in ((0.5, 0.1), 0.5, "half", (), (0.5, math.nan), (-0.1, 1)):
        refused(every, "rising shares", fractions=fractions)
    for random in (-1, 2.5, None):
        refused(every, "`random` expects a whole number from 0", random=random)
    refused(dict.fromkeys(heads, 1.0), "the metric is the same", second=clean)
    refused([Edge("decoder.1.0", "decoder.0.0.q")], "before the source")
    few = edge_effects(model, clean, corrupt, difference, progress=False)
    few.matrix[0, 0] = math.nan
    refused(few, "edges, and the scores")
