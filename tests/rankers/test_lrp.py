"""LRP: each rule against its formula, relevance conserved to the embeddings, and no trace left."""

from contextlib import ExitStack

import pytest
import torch
import torch.nn.functional as F
from ranker_cases import scores_of
from torch import Tensor, nn
from transformers import BertConfig, BertForTokenClassification

from architectures.configs import shrunk
from architectures.tiny import randomise, tiny
from deadhead.errors import UnsupportedModel
from deadhead.heads import discover
from deadhead.rankers.loss import forward
from deadhead.rankers.lrp import alphabeta as rules
from deadhead.rankers.lrp.flow import flowing
from deadhead.rankers.lrp.method import LRP
from deadhead.rankers.lrp.relevance import RULES, AlphaBeta, Epsilon, decision, relevance
from deadhead.verify.inputs import batch_for

FAMILIES = ("roberta", "electra", "marian", "m2m_100", "opt")
BOTH = pytest.mark.parametrize("rule", ["alpha-beta", "epsilon"])


def ready(family):
    """A tiny language model with labels, the second sentence padded."""
    model = tiny(family).double().requires_grad_(False)
    batch = batch_for(model)
    labels = (
        batch["decoder_input_ids"]
        if "decoder_input_ids" in batch
        else batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    )
    return model, {**batch, "labels": labels.clone()}


def tagger():
    model = BertForTokenClassification(shrunk(BertConfig, {"num_labels": 5}))
    randomise(model, 0)
    model = model.double().eval().requires_grad_(False)
    batch = batch_for(model)
    labels = torch.randint(0, 5, (2, 12), generator=torch.Generator().manual_seed(3)).masked_fill(
        batch["attention_mask"] == 0, -100
    )
    labels[0, :4] = -100
    return model, {**batch, "labels": labels}


def by_formula(function, inputs, arrived):
    """The alpha-beta rule of the paper, entry by entry, with the Jacobian from autograd."""
    jacobians = torch.autograd.functional.jacobian(function, inputs)
    output, at_zero = (
        function(*inputs).numel(),
        function(*(torch.zeros_like(x) for x in inputs)).flatten(),
    )
    z = torch.cat(
        [j.reshape(output, -1) * x.flatten() for j, x in zip(jacobians, inputs, strict=True)], dim=1
    )
    reads = torch.cat([j.reshape(output, -1) for j in jacobians], dim=1) != 0
    z = (
        z + reads * (at_zero / reads.sum(1).clamp(min=1))[:, None]
    )  # shared by the inputs that the output reads
    result = torch.zeros(z.shape[1], dtype=z.dtype)
    for j, r in enumerate(arrived.flatten()):
        plus, minus = z[j].clamp(min=0), z[j].clamp(max=0)
        result += r * (0.5 * plus / (plus.sum() + 1e-5) + 0.5 * minus / (minus.sum() - 1e-5))
    return tuple(
        part.view_as(x)
        for part, x in zip(result.split([x.numel() for x in inputs]), inputs, strict=True)
    )


def noise(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


WEIGHT, BIAS = noise(6, 6, seed=1), noise(6, seed=2)
RULED = {  # a function, its rule, and how many inputs it has
    "dense": (
        lambda x: F.linear(x, WEIGHT, BIAS),
        lambda r, x: (rules.dense(r, x, WEIGHT, BIAS),),
        1,
    ),
    "layer norm": (
        lambda x: F.layer_norm(x, (6,), WEIGHT[0], BIAS, 1e-5),
        lambda r, x: (rules.layer_norm(r, x, WEIGHT[0], BIAS, 1e-5),),
        1,
    ),
    "residual": (torch.add, rules.added, 2),
}


@pytest.mark.parametrize("at_once", [50, 2**21])
@pytest.mark.parametrize("name", RULED)
def test_a_rule_is_the_formula(name, at_once, monkeypatch):
    monkeypatch.setitem(rules.ENTRIES_AT_ONCE, "cpu", at_once)  # 50: one row at a time
    function, rule, count = RULED[name]
    inputs = tuple(noise(1, 5, 6, seed=seed) for seed in range(3, 3 + count))
    arrived = noise(1, 5, 6).abs()
    arrived[0, 1], arrived[0, :, 2] = 0, 0  # a row and an output that are skipped
    expected = by_formula(function, inputs, arrived)
    for part, target in zip(rule(arrived, *inputs), expected, strict=True):
        torch.testing.assert_close(part, target)


def test_attention_rule_is_the_formula():
    q, k, v, arrived = (
        noise(1, 1, 3, 4),
        noise(1, 1, 5, 4, seed=1),
        noise(1, 1, 5, 4, seed=2),
        noise(1, 1, 3, 4, seed=3).abs(),
    )
    mask = torch.ones(3, 5, dtype=torch.bool).tril(2)
    weights = (q @ k.transpose(-2, -1) * 0.7).masked_fill(~mask, -1e9).softmax(-1)

    def attend(q, k, v):
        return (q @ k.transpose(-2, -1) * 0.7).masked_fill(~mask, -1e9).softmax(-1) @ v

    result = rules.attention(arrived, q, k, v, weights=weights, scale=0.7)
    for part, target in zip(result, by_formula(attend, (q, k, v), arrived), strict=True):
        torch.testing.assert_close(part, target)


def arriving(model, batch, rule):
    """Relevance of each sentence summed over its embeddings, and the logits it came from."""
    seen: list[Tensor] = []

    def keep(module, args, output):
        seen.append(output.detach().expand(2, *output.shape[-2:]).clone().requires_grad_())
        return seen[-1]

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(keep).remove)
        with flowing(model, rule) as rules_in_place, rules_in_place:
            logits = forward(model, batch).logits
    start = decision(logits, batch["labels"], shifted=False)
    gradients = torch.autograd.grad(start, seen, allow_unused=True)
    total = sum(
        rule.relevance(x.detach(), g).flatten(1).sum(1)
        for x, g in zip(seen, gradients, strict=True)
        if g is not None
    )
    return total, float(start.detach())


@pytest.mark.parametrize("family", ["tagger", "marian"])
def test_alpha_beta_conserves_relevance(family, monkeypatch):
    model, batch = tagger() if family == "tagger" else ready(family)
    total, _ = arriving(model, batch, AlphaBeta())
    torch.testing.assert_close(total, (batch["labels"] != -100).sum(1).double(), rtol=1e-9, atol=0)
    monkeypatch.setattr(
        rules, "rescaled", lambda parts, arrived: parts
    )  # the twin: without the scaling it leaks
    leaking, _ = arriving(model, batch, AlphaBeta())
    assert float((leaking / total).max()) < 0.999


def without_bias(model):
    """Biases swallow relevance under the epsilon rule: there is none to hand on."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
    return model


class ConstantAttention(Epsilon):
    """The softmax keeps its gradient, which conserves nothing, so attention is left out here."""

    def attention(self, q, k, v, scale, weigh):
        return weigh(q @ k.transpose(-2, -1) * scale).detach() @ v


@pytest.mark.parametrize("family", ["tagger", "marian", "roberta"])
def test_epsilon_conserves_relevance(family, monkeypatch):
    model, batch = tagger() if family == "tagger" else ready(family)
    model = without_bias(model)
    total, start = arriving(model, batch, ConstantAttention())
    assert float(total.sum()) == pytest.approx(start, rel=1e-6)
    # the twin: the true gradient of the activation
    monkeypatch.setattr(Epsilon, "activation", lambda self, x, output: output)
    leaking, _ = arriving(model, batch, ConstantAttention())
    assert float(leaking.sum()) != pytest.approx(start, rel=1e-2)


def test_attention_products_give_half_to_each_factor():
    """AttnLRP through one attention: q and k get a quarter of their gradients, and v half."""
    q, k, v = (noise(1, 2, 3, 4, seed=i).requires_grad_() for i in range(3))
    grads = torch.autograd.grad(((q @ k.transpose(-2, -1)).softmax(-1) @ v).pow(2).sum(), (q, k, v))
    bent = torch.autograd.grad(
        Epsilon().attention(q, k, v, 1.0, lambda s: s.softmax(-1)).pow(2).sum(), (q, k, v)
    )
    for result, gradient, share in zip(bent, grads, (0.25, 0.25, 0.5), strict=True):
        torch.testing.assert_close(result, share * gradient)
    output = Epsilon().attention(q, k, v, 1.0, lambda s: s.softmax(-1))
    (to_v,) = torch.autograd.grad(output.sum(), v)
    assert float((to_v * v).sum().detach()) == pytest.approx(float(output.sum().detach()) / 2)


def test_epsilon_bends_norm_and_activation_as_if_parts_were_detached():
    x, weight, bias, arrived = (
        noise(2, 3, 6).requires_grad_(),
        noise(6, seed=1),
        noise(6, seed=2),
        noise(2, 3, 6, seed=3),
    )
    deviation = (x.detach().var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    by_graph = (x - x.mean(-1, keepdim=True)) / deviation * weight + bias
    pairs = [
        (Epsilon().layer_norm(x, weight, bias, 1e-5), by_graph),
        (Epsilon().activation(x, F.gelu(x)), x * (F.gelu(x) / x).detach()),
    ]
    outputs = (F.layer_norm(x, (6,), weight, bias, 1e-5), F.gelu(x))
    for (bent, graph), untouched in zip(pairs, outputs, strict=True):
        torch.testing.assert_close(bent, untouched)
        mine, expected, usual = (
            torch.autograd.grad(y, x, arrived)[0] for y in (bent, graph, untouched)
        )
        torch.testing.assert_close(mine, expected)
        assert float((mine - usual).detach().abs().max()) > 1e-2


@BOTH
@pytest.mark.parametrize("family", FAMILIES)
def test_rules_leave_the_output_alone_and_no_trace(family, rule):
    model, batch = ready(family)
    logits = forward(model, batch).logits
    before = {
        name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()
    }
    model.set_attn_implementation("eager")
    with flowing(model, RULES[rule]()) as rules_in_place, rules_in_place:
        torch.testing.assert_close(forward(model, batch).logits, logits)
    assert model.config._attn_implementation == "eager"
    scores = scores_of(LRP(rule=rule), model, [batch])
    assert set(scores) == set(discover(model))
    assert min(scores.values()) == 0
    assert max(scores.values()) == 1
    assert {
        name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()
    } == before


@pytest.mark.parametrize(
    ("family", "reason"),
    [("llama", "pow"), ("gpt2", "addmm"), ("xlnet", "its own form of attention"), ("t5", "pow")],
)
def test_others_are_refused_by_name(family, reason):
    model, batch = ready(family)
    with pytest.raises(
        UnsupportedModel, match=f"'{family}' does: .*{reason}.*Supported are .*BERT.*Marian"
    ):
        scores_of(LRP(), model, [batch])
    assert not any(m._forward_pre_hooks for m in model.modules())


@BOTH
def test_company_and_padding_do_not_matter(rule):
    model, batch = tagger()
    chosen, layout = RULES[rule](), discover(model)
    with relevance(model, layout, chosen) as relevance_of:
        together = relevance_of(batch)
    for row, length in ((0, 12), (1, 9)):
        with relevance(model, layout, chosen) as relevance_of:
            alone = relevance_of({k: v[row : row + 1, :length] for k, v in batch.items()})
        for place, result in alone.items():
            torch.testing.assert_close(together[place][row], result[0], rtol=1e-8, atol=1e-10)
    assert float((together["encoder", 0][0] - together["encoder", 0][1]).abs().max()) > 1e-3


@BOTH
def test_shares_of_a_layer_sum_to_one_and_repeat(rule):
    model, batch = ready("marian")
    layout = discover(model)
    first, second = (scores_of(LRP(rule=rule), model, [batch], seed=seed) for seed in (0, 1))
    assert first == second
    assert first.raw is not None
    for attention in layout.attentions:
        assert sum(first.raw[head] for head in attention.heads) == pytest.approx(1)
