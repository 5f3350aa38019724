"""Similarity: by hand with hooks, and 0 for a layer that adds nothing."""

import pytest
import torch
from ranker_cases import make_case

from architectures.tiny import tiny
from deadhead import rank
from deadhead.errors import DeadheadError, UnsupportedModel
from deadhead.heads.discover import find_sites
from deadhead.verify.inputs import batch_for


@torch.no_grad()
def turned(before, after, mask):
    """1 - cosine over the tokens that are no padding."""
    cosine = torch.nn.functional.cosine_similarity(before, after, dim=-1)
    return float((1 - cosine)[mask.bool()].mean())


def test_before_a_norm_as_in_llama():
    case = make_case("causal")
    seen: dict[int, list[torch.Tensor]] = {}
    for number, layer in enumerate(case.model.model.layers):
        streams = seen.setdefault(number, [])
        # the input of a norm is the residual stream
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.register_forward_pre_hook(lambda m, args, streams=streams: streams.append(args[0]))
    case.model(**case.batch)
    expected = [turned(*streams, case.batch["attention_mask"]) for streams in seen.values()]
    everywhere = [
        turned(*streams, torch.ones_like(streams[0][..., 0])) for streams in seen.values()
    ]
    ranking = rank(case.model, [case.batch], "similarity", progress=False)
    assert ranking.matrix().shape == (2, 4)
    for row, value, with_padding in zip(ranking.matrix(), expected, everywhere, strict=True):
        assert value > 0.01
        assert row.tolist() == pytest.approx([value] * 4, rel=1e-9)
        assert abs(value - with_padding) > 1e-6


def test_after_a_norm_as_in_bert():
    case = make_case("classify")
    seen: list[list[torch.Tensor]] = []
    for layer in case.model.bert.encoder.layer:
        streams: list[torch.Tensor] = []
        layer.register_forward_pre_hook(lambda m, args, streams=streams: streams.append(args[0]))
        norm = layer.attention.output.LayerNorm
        norm.register_forward_pre_hook(lambda m, args, streams=streams: streams.append(args[0]))
        seen.append(streams)
    case.model(**case.batch)
    expected = [turned(*streams, case.batch["attention_mask"]) for streams in seen]
    assert min(expected) > 0.01
    scores = rank(case.model, case.singles(), "similarity", progress=False).scores
    assert {head.layer: round(score, 9) for head, score in scores.items()} == {
        number: round(value, 9) for number, value in enumerate(expected)
    }


@pytest.mark.parametrize("family", ["gemma2", "marian", "gptj", "xlnet"])
def test_a_layer_that_adds_nothing_has_score_0(family):
    """Also behind a norm or a factor, beside a feed-forward layer, and in every block."""
    model = tiny(family).double().eval()
    batch = {k: v.double() if v.is_floating_point() else v for k, v in batch_for(model).items()}
    sites = find_sites(model)
    before = rank(model, [batch], "similarity", progress=False)
    assert min(before.scores.values()) > 1e-3
    with torch.no_grad():
        for site in sites:
            if site.layer == 1:
                for name in ("weight", "bias") if site.out is not None else ("o",):
                    weight = getattr(site.core if site.out is None else site.out, name, None)
                    if weight is not None:
                        weight.zero_()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    ranking = rank(model, [batch], "similarity", progress=False)
    for head, score in ranking.scores.items():
        assert (score < 1e-12) == (head.layer == 1)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks for m in model.modules())


def test_what_it_refuses():
    case = make_case("tag")
    with pytest.raises(DeadheadError, match="similarity reads the inputs alone"):
        rank(case.model, [case.batch], "similarity", loss="self")

    for layer in case.model.roberta.encoder.layer:
        output = layer.attention.output
        output.forward = lambda attention, _, dense=output.dense: dense(attention)
    with pytest.raises(UnsupportedModel, match="output is added to no residual stream"):
        rank(case.model, [case.batch], "similarity", progress=False)
