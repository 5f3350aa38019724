"""Rankings that ask whether a head needs the distance: closed heads see a window alone."""

import pytest
import torch
from test_attribution import STEP, TOLERANCE, assert_same, differences

from deadhead import Streaming
from deadhead.errors import DeadheadError
from deadhead.heads import discover, gated
from deadhead.rankers import rank
from deadhead.rankers.loss import example_losses

WINDOW = Streaming(sink=1, recent=2)
KINDS = ("tag", "seq2seq", "causal")


def scored(model):
    return [head for head in discover(model) if head.block != "cross"]


@torch.no_grad()
def mean_loss(model, batches, heads):
    with gated(model, streaming=heads, **(vars(WINDOW) if heads else {})):
        losses = torch.cat([example_losses(model, batch) for batch in batches])
    return float(losses.mean())


@pytest.mark.parametrize("kind", KINDS)
def test_ablation_is_the_loss_with_each_head_streaming(case, kind):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:1]]
    ranking = rank(setup.model, batches, "ablation", streaming=WINDOW, tokens=60)
    assert set(ranking.scores) == set(scored(setup.model))
    assert ranking.options["fill"] == "streaming"
    assert (ranking.options["sink"], ranking.options["recent"]) == (1, 2)
    whole = mean_loss(setup.model, batches, ())
    for head in scored(setup.model):
        rise = mean_loss(setup.model, batches, [head]) - whole
        assert ranking[head] == pytest.approx(rise, abs=1e-9)
    assert max(map(abs, ranking.scores.values())) > 1e-3
    wide = rank(setup.model, batches, "ablation", streaming=Streaming(sink=1, recent=50))
    assert max(map(abs, wide.scores.values())) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_attribution_is_the_finite_difference_of_the_mix(case, kind):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:1]]
    scores = rank(setup.model, batches, "attribution", streaming=WINDOW).scores
    slopes = differences(setup.model, batches, [WINDOW] * 2, STEP.get(kind, 2**-13), scored)
    assert_same(scores, slopes, TOLERANCE.get(kind, 1e-6))
    kept = rank(setup.model, batches, "attribution", streaming=WINDOW, checkpointing=True)
    assert all(kept[head] == pytest.approx(score, abs=1e-7) for head, score in scores.items())


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_add_up(case, kind):
    setup = case(kind)
    closed = scored(setup.model)[:1]
    options = {"streaming": WINDOW, "steps": 24, "closed": closed}
    ranking = rank(setup.model, [setup.batch], "attribution", **options)
    rest = [head for head in scored(setup.model) if head not in closed]
    assert set(ranking.scores) == set(rest)
    with gated(setup.model, closed=closed):
        whole = mean_loss(setup.model, [setup.batch], ())
        with gated(setup.model, streaming=rest, **vars(WINDOW)), torch.no_grad():
            rise = float(example_losses(setup.model, setup.batch).mean()) - whole
    assert ranking.details["rise"] == pytest.approx(rise, abs=1e-6)
    assert sum(ranking.scores.values()) == pytest.approx(rise, rel=1e-2)


def test_fisher_is_the_mean_square_of_the_same_gradient(case):
    setup = case("tag")
    singles = setup.singles()
    fisher = rank(setup.model, [setup.batch], "fisher", form="diagonal", streaming=WINDOW)
    each = [rank(setup.model, [row], "attribution", streaming=WINDOW).scores for row in singles]
    for head in scored(setup.model):
        mean = sum(scores[head] ** 2 for scores in each) / len(each)
        assert fisher[head] == pytest.approx(mean, rel=1e-6)


def test_what_is_refused(case):
    setup = case("tag")

    def refuses(message, method="attribution", **options):
        with pytest.raises(DeadheadError, match=message) as error:
            rank(setup.model, [setup.batch], method, **options)
        assert error.value.hint

    refuses("taylor takes no streaming heads", "taylor", streaming=WINDOW)
    refuses("streaming heads are the fill, but fill is given too", streaming=WINDOW, fill="mean")
    refuses(r"`streaming` expects Streaming\(...\), got 4", streaming=4)
    refuses("corrupt batches or streaming, got both", streaming=WINDOW, corrupt=[setup.batch])
