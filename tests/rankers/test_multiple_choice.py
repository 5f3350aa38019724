"""Models of multiple choice, which run each option of an example as a text of its own."""

import pytest
import torch
from torch.nn.functional import pad
from transformers import AutoModelForMultipleChoice

from architectures.tiny import randomise, tiny
from deadhead import rank, shrink
from deadhead.heads import discover, gated, head_means
from deadhead.heads.discover import find_every_site
from deadhead.rankers import RANKERS
from deadhead.rankers.loss import example_losses
from deadhead.rankers.ranker import RankerInputs
from deadhead.rankers.set_values import SetValues
from deadhead.shrinking.costs import costs

EXAMPLES, OPTIONS, TOKENS = 8, 3, 7


@pytest.fixture(params=["bert", "xlnet"])
def model(request):
    config = tiny(request.param).config
    config.summary_type = "first"  # XLNet would read the last token, padding or not
    model = AutoModelForMultipleChoice.from_config(config)
    randomise(model, 0)
    return model.double().eval()


@pytest.fixture
def batch():
    """Options of different lengths, so that every number that counts padding is wrong."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 90, (EXAMPLES, OPTIONS, TOKENS), generator=draw)
    lengths = torch.randint(3, TOKENS + 1, (EXAMPLES, OPTIONS, 1), generator=draw)
    mask = (torch.arange(TOKENS) < lengths).long()
    labels = torch.randint(OPTIONS, (EXAMPLES,), generator=draw)
    return {"input_ids": ids * mask + (1 - mask), "attention_mask": mask, "labels": labels}


def as_texts(batch):
    """What the layers read."""
    return {name: batch[name].flatten(0, 1) for name in ("input_ids", "attention_mask")}


def one_by_one(batch):
    return [{name: value[n : n + 1] for name, value in batch.items()} for n in range(EXAMPLES)]


def assert_same(scores, expected):
    assert max(abs(scores[head] - expected[head]) for head in expected) < 1e-9
    assert max(map(abs, expected.values())) > 1e-4
    assert len(set(expected.values())) > 1


def skip_hidden_attention(method, model):
    if method in ("entropy", "confidence", "lrp") and model.config.model_type == "xlnet":
        pytest.skip("XLNet does not show its attention probabilities, and LRP has no rule for it")


@pytest.mark.parametrize("method", [name for name in RANKERS if name != "l0"])
def test_padding_and_batches_do_not_matter(method, model, batch):
    skip_hidden_attention(method, model)
    options = {"permutations": 3, "measure": "loss"} if method == "shapley" else {}
    expected = rank(model, [batch], method, progress=False, **options).scores
    longer = {**batch, "input_ids": pad(batch["input_ids"], (0, 2), value=1)}
    longer["attention_mask"] = pad(batch["attention_mask"], (0, 2))
    assert_same(rank(model, [longer], method, progress=False, **options).scores, expected)
    single = rank(model, one_by_one(batch), method, progress=False, **options).scores
    assert_same(single, expected)


def test_the_gradient_is_that_of_one_gate_for_all_options(model, batch):
    layout = discover(model)
    total = dict.fromkeys(layout, 0.0)
    for one in one_by_one(batch):
        gates = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
        with gated(model, gates):
            (gradient,) = torch.autograd.grad(example_losses(model, one).sum(), gates)
        for head in layout:
            total[head] += abs(float(gradient[head.layer, head.index]))
    plain = {"normalize": False, "rescale": False, "unit": "per_example"}
    scores = rank(model, [batch], "gradient", progress=False, **plain).scores
    tokens = int(batch["attention_mask"].sum())
    assert_same(scores, {head: value / tokens for head, value in total.items()})


def test_the_value_of_a_set_is_that_of_its_closed_heads(model, batch):
    layout = discover(model)
    sets = [frozenset(), frozenset([*layout][:1]), frozenset([*layout][1:3])]
    inputs = RankerInputs(model=model, layout=layout, batches=[batch])
    values = SetValues(inputs, measure="loss", fill="zero", rows=None)(sets)
    for closed, value in zip(sets, values, strict=True):
        with gated(model, closed=closed):
            assert value == pytest.approx(-example_losses(model, batch).mean().item())
    assert len(set(values)) == 3


@pytest.mark.parametrize("method", ["attribution", "ablation"])
def test_corrupt_batches(method, model, batch):
    corrupt = {**batch, "input_ids": (batch["input_ids"] * 7 % 80 + 9)}
    whole = rank(model, [batch], method, corrupt=[corrupt], progress=False).scores
    pairs = one_by_one(batch), one_by_one(corrupt)
    assert_same(whole, rank(model, pairs[0], method, corrupt=pairs[1], progress=False).scores)


def test_tokens_are_counted_with_and_without_a_mask(model, batch):
    bare = {name: value for name, value in batch.items() if name != "attention_mask"}
    counts = [rank(model, [some], progress=False).data["tokens"] for some in (batch, bare)]
    assert counts == [int(batch["attention_mask"].sum()), EXAMPLES * OPTIONS * TOKENS]


def test_means_are_those_of_the_texts(model, batch):
    means, expected = head_means(model, [batch]), head_means(model.base_model, [as_texts(batch)])
    for place, values in expected.values.items():
        torch.testing.assert_close(means.values[place], values)


def test_shrinking(model, batch):
    batches = [batch] * 4
    report = shrink(model, batches, heads=0.5, on=(2, 5), progress=False)
    assert report.sizes["heads"][1] == report.sizes["heads"][0] // 2
    refitted = [layer for layer in report.layers if layer.errors is not None]
    assert all(layer.errors[1] <= layer.errors[0] for layer in refitted)
    assert bool(refitted) == (model.config.model_type != "xlnet")


def test_macs_are_those_of_all_options(model, batch):
    counted = costs(model, find_every_site(model), batch, (2, 5))
    body = model.base_model
    expected = costs(body, find_every_site(body), as_texts(batch), (2 * OPTIONS, 5))
    assert counted.macs == expected.macs
