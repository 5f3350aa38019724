"""Activations that are computed again: the same numbers, and the model is left as it was."""

import pytest
import torch
from transformers import AlbertForMaskedLM

from architectures.tiny import randomise, tiny
from deadhead import discover, prune, rank
from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site
from deadhead.heads.layers import checkpointed, copy_with_same_weights, is_repeated, layers_around

METHODS = ("gradient", "taylor", "fisher", "attribution")


def case(kind="llama"):
    """A model with random weights, and a batch of three examples."""
    model = tiny(kind)
    if kind == "albert":  # its layers share their weights
        model = AlbertForMaskedLM(model.config)
    randomise(model, 0)
    ids = torch.randint(3, 90, (3, 8), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
    return model.double().eval(), [batch]


class Counted:
    """Counts the runs of the first layer, and how many of them are second ones."""

    def __init__(self, model):
        self.runs = self.repeated = 0
        site = find_every_site(model)[0]
        self.hook = site.out.register_forward_hook(self)

    def __call__(self, *_):
        self.runs += 1
        self.repeated += is_repeated()


def forwards(model):
    return [name for name, module in model.named_modules() if "forward" in module.__dict__]


@pytest.mark.parametrize(
    ("kind", "method"), [*(("llama", method) for method in METHODS), ("albert", "gradient")]
)
def test_rankings_are_the_same(kind, method):
    model, batches = case(kind)
    options = {"corrupt": [{**batches[0], "input_ids": batches[0]["input_ids"].flip(1)}]}
    options = options if method == "attribution" else {}
    expected = rank(model, batches, method, progress=False, **options)
    counted = Counted(model)
    again = rank(model, batches, method, progress=False, checkpointing=True, **options)
    assert counted.repeated > 0  # or nothing was computed again
    for head, score in expected.scores.items():
        assert again[head] == pytest.approx(score, rel=1e-9)
    assert not forwards(model)


def test_dropout_is_the_same_in_both_runs():
    model, [batch] = case("bert")
    model.train()
    gradients = []
    for is_on in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        if is_on:
            with checkpointed(model):
                model(**batch).loss.backward()
        else:
            model(**batch).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 0
    for one_run, two_runs in zip(*gradients, strict=True):
        torch.testing.assert_close(one_run, two_runs)


def test_without_gradients_nothing_runs_twice_and_an_error_restores_the_model():
    model, [batch] = case()
    counted = Counted(model)
    with torch.no_grad(), checkpointed(model):
        assert len(forwards(model)) == len(layers_around(model, find_every_site(model)))
        model(**batch)
    assert (counted.runs, counted.repeated) == (1, 0)
    with pytest.raises(ZeroDivisionError), checkpointed(model):
        _ = 1 / 0
    assert not forwards(model)


def test_a_copy_shares_its_weights_until_one_of_both_is_cut():
    model, [batch] = case()
    with torch.no_grad():
        before = model(**batch).logits
        whole = copy_with_same_weights(model)
        own = {p.data_ptr() for p in model.parameters()}
        assert all(p.data_ptr() in own for p in whole.parameters())
        prune(model, ["decoder.0.0", "decoder.0.1"])
        assert not torch.allclose(model(**batch).logits, before)
        torch.testing.assert_close(whole(**batch).logits, before)
    assert len(discover(whole)) == len(discover(model)) + 2


def test_methods_without_it_say_so():
    model, batches = case()
    with pytest.raises(DeadheadError, match="ablation has no checkpointing"):
        rank(model, batches, "ablation", progress=False, checkpointing=True)
