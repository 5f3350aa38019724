"""What one pass collects: against single examples, plain hooks and gates that multiply."""

import pytest
import torch
from choice_cases import LENGTHS, data, model_of, singles

from deadhead.display.progress import silent
from deadhead.errors import DataError, UnsupportedModel
from deadhead.heads.discover import discover, find_every_site
from deadhead.heads.gates import gated
from deadhead.rankers.loss import example_losses
from deadhead.shrinking.statistics import collect

KINDS = ("classify", "tag", "causal")


def collected(model, batches, moments=False, **options):
    model.requires_grad_(False)
    sites = find_every_site(model)
    places = [site.key for site in sites] if moments else []
    return collect(model, sites, batches, moments=places, progress=silent, **options)


def labelled(kind):
    return [{"classify": 1, "tag": n, "causal": n - 1}[kind] for n in LENGTHS]


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_summed_over_real_tokens(kind):
    model, batch = model_of(kind), data(kind)
    statistics = collected(model, [batch], moments=True)
    read: list[torch.Tensor] = []
    for site in find_every_site(model):
        read.clear()
        hook = site.out.register_forward_pre_hook(lambda m, a: read.append(a[0][0]))
        with torch.no_grad():
            for row in singles(batch):
                model(**row)
        hook.remove()
        rows, layer = torch.cat(read), statistics.places[site.key]
        assert float(layer.rows) == len(rows) == sum(LENGTHS)
        torch.testing.assert_close(layer.columns, rows.sum(0), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(layer.squares, rows.square().sum(0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_gates_that_multiply(kind, monkeypatch):
    """Of each example alone, times the square root of its labelled tokens; by groups of heads.

    And of batches, here of four and two examples: of the mean over all their labelled tokens.
    """
    monkeypatch.setattr("deadhead.shrinking.statistics.BATCH", 4)
    model, batch = model_of(kind), data(kind)
    statistics = collected(model, [batch], by_batch=True)
    layout = discover(model, neurons=True)
    rows: list[list[float]] = []
    neurons = {(f.block, f.layer): torch.zeros(2, f.size).double() for f in layout.feed_forwards}
    tokens = torch.tensor(labelled(kind), dtype=torch.float64)
    sums = torch.stack([tokens[:4].sum(), tokens[4:].sum()])
    for number, (row, count) in enumerate(zip(singles(batch), labelled(kind), strict=True)):
        heads = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
        units = {p: torch.ones(v.shape[1]).double().requires_grad_() for p, v in neurons.items()}
        with gated(model, heads, neuron_gates=units):
            (example_losses(model, row).sum() * count**0.5).backward()
        group = layout.attentions[0].group
        rows.append(heads.grad.flatten().unflatten(0, (-1, group)).sum(1).tolist())
        for place, unit in units.items():
            neurons[place][number // 4] += unit.grad * count**0.5 / sums[number // 4]
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(statistics.fisher, expected.T @ expected, rtol=1e-5, atol=1e-9)
    for (block, layer), gradients in neurons.items():
        by_batch = statistics.places["neurons", block, layer].by_batch
        scale = (sums.mean() / 2).sqrt()  # half the squares add up to a rise of the loss
        torch.testing.assert_close(by_batch, gradients * scale, rtol=1e-5, atol=1e-9)
        assert by_batch.abs().max() > 1e-6
    assert statistics.examples == len(LENGTHS)


def test_squares_and_moments_at_each_token():
    model, batch = model_of("tag"), data("tag")
    statistics = collected(model, [batch], moments=True)
    site = next(s for s in find_every_site(model) if s.key == ("neurons", "encoder", 0))
    kept: list[torch.Tensor] = []

    def before(module, args):
        kept.append(args[0].detach().requires_grad_())
        return (kept[-1],)

    def after(module, args, output):
        output.retain_grad()
        kept.append(output)

    hooks = [site.out.register_forward_pre_hook(before), site.out.register_forward_hook(after)]
    by_token, moment, unweighted = 0, 0, 0
    for row, count in zip(singles(batch), labelled("tag"), strict=True):
        kept.clear()
        (example_losses(model, row).sum() * count**0.5).backward()
        by_token += (kept[0].grad * kept[0]).detach().square().sum((0, 1))
        read, weights = kept[0].detach()[0], kept[1].grad[0].square().mean(-1)
        moment += torch.einsum("t,ti,tj->ij", weights, read, read)
        unweighted += weights.mean() * read.T @ read
    for hook in hooks:
        hook.remove()
    facts = statistics.places[site.key]
    torch.testing.assert_close(facts.by_token, by_token, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(facts.moment, moment, rtol=1e-8, atol=1e-12)
    assert (moment - unweighted).abs().max() > 1e-3 * moment.abs().max()  # the weights matter
    assert facts.by_batch is None  # nobody asked for it


def test_a_gradient_of_nan_is_named():
    model, batch = model_of("tag"), data("tag")

    def hook(module, args, output):
        output.register_hook(lambda gradient: gradient * float("nan"))

    site = next(s for s in find_every_site(model) if s.key == ("heads", "encoder", 1))
    site.out.register_forward_hook(hook)
    with pytest.raises(DataError, match="gradient at the heads of encoder layer 0"):
        collected(model, [batch])


def test_a_model_that_ignores_its_layers_is_refused():
    model, batch = model_of("tag"), data("tag")
    with torch.no_grad():
        model.classifier.weight.zero_()
    with pytest.raises(UnsupportedModel, match="is 0 at every head and neuron"):
        collected(model, [batch])
