"""Streaming heads see the first and the recent tokens alone, as under a mask made by hand."""

import pytest
import torch

from deadhead import Streaming, captured, discover, gated
from deadhead.errors import HeadError, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, hooks, refused

# relative positions, learnt biases, latent and grouped keys, another order of axes
FAMILIES = ["bert", "deberta-v2", "t5", "bloom", "xlnet", "marian", "llama", "deepseek_v3"]
LENGTH = 12


def by_hand(real, heads, streaming, sink, recent, causal):
    """For a model: 0 where a head may read, batch x heads x queries x keys, with loops."""
    batch, length = real.shape
    mask = torch.full((batch, heads, length, length), -1e30, dtype=torch.float64)
    for example in range(batch):
        tokens = real[example].nonzero().flatten().tolist()
        for head in range(heads):
            for q, query in enumerate(tokens):
                for k, key in enumerate(tokens):
                    inside = k < sink or abs(q - k) < recent or head not in streaming
                    if inside and (k <= q or not causal):
                        mask[example, head, query, key] = 0
            for query in range(length):
                mask[example, head, query, query] = 0  # padding reads itself
    return mask


def padded_batch(left=False):
    ids = torch.randint(5, 90, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    real = torch.ones(2, LENGTH, dtype=torch.long)
    real[1, slice(0, 4) if left else slice(8, LENGTH)] = 0
    return {"input_ids": ids * real, "attention_mask": real}


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize(
    ("family", "causal"), [("bert", False), ("gpt2", True), ("llama", True), ("qwen3", True)]
)
def test_equals_a_mask_made_by_hand(family, causal, kernel):
    model = build(family)
    model.set_attn_implementation(kernel)
    size, layers = discover(model).attentions[0].size, len(discover(model).attentions)
    block, batch = discover(model).blocks[0], padded_batch()
    streaming = range(size)[:: 2 if size > 1 else 1]
    mask = by_hand(batch["attention_mask"], size, streaming, 1, 3, causal)
    whole = by_hand(batch["attention_mask"], size, (), 1, 3, causal)
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        expected = model(batch["input_ids"], attention_mask=mask).logits[real]
        full = model(batch["input_ids"], attention_mask=whole).logits[real]
        heads = [f"{block}.{layer}.{head}" for layer in range(layers) for head in streaming]
        with gated(model, streaming=heads, sink=1, recent=3):
            with_positions = model(**batch).logits[real]
    assert float((with_positions - expected).abs().max()) < 1e-9
    assert float((full - expected).abs().max()) > 1e-3
    assert float((full - model(**batch).logits[real].detach()).abs().max()) < 1e-9


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_outside_the_window_does_not_matter(family):
    model = build(family)
    before, batch = hooks(model), {"input_ids": torch.arange(5, 5 + LENGTH)[None]}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = batch["input_ids"]
    heads = [head for head in discover(model) if head.layer == 0 and head.block != "cross"]
    layer = heads[-1][:2]

    def context(changed, **streaming):
        """What the output projection reads at the token before the last but one."""
        other = {name: ids.clone() for name, ids in batch.items()}
        for ids in other.values():
            ids[0, changed] += 30
        with torch.no_grad(), gated(model, **streaming), captured(model) as run:
            answers(model, other)
        return run.values[layer][0][0, LENGTH - 3]

    window = {"streaming": heads, "sink": 2, "recent": 3}
    apart_by = {n: float((context(n) - context(0)).abs().max()) for n in (4,)}
    assert apart_by[4] > 1e-4  # both differ in tokens that are read without a window
    assert float((context(4, **window) - context(5, **window)).abs().max()) < 1e-12
    for inside in (0, 1, LENGTH - 5, LENGTH - 3):
        assert float((context(4, **window) - context(inside, **window)).abs().max()) > 1e-6
    assert hooks(model) == before


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wide_window_is_the_plain_model_and_gates_blend(family):
    model = build(family)
    batch = batch_of(model)
    heads = [head for head in discover(model) if head.block != "cross"]
    full = answers(model, batch)
    with gated(model, streaming=heads, sink=0, recent=99):
        assert apart(full, answers(model, batch)) < 1e-12
    window = Streaming(sink=1, recent=2)
    with gated(model, streaming=heads, sink=1, recent=2):
        streamed = answers(model, batch)
    assert apart(full, streamed) > 1e-3
    with gated(model, dict.fromkeys(heads, 0.0), fill=window):
        assert apart(streamed, answers(model, batch)) < 1e-12
    with gated(model, dict.fromkeys(heads, 1.0), fill=window):
        assert apart(full, answers(model, batch)) < 1e-12


def test_padding_on_either_side_and_no_batch_give_the_same():
    model = build("llama")
    heads = list(discover(model))[::3]
    for left in (False, True):
        batch = padded_batch(left)
        positions = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
        with torch.no_grad(), gated(model, streaming=heads, sink=1, recent=3):
            together = model(**batch, position_ids=positions).logits
            for row in range(2):
                real = batch["attention_mask"][row].bool()
                alone = model(batch["input_ids"][row, real][None]).logits[0]
                assert float((together[row, real] - alone).abs().max()) < 1e-9


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart"])
def test_generation_with_a_cache_is_that_without(family):
    model = build(family)
    ids = torch.arange(5, 5 + LENGTH)[None]
    heads = [head for head in discover(model) if head.block != "cross"]
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": 1}
    options |= {"output_scores": True, "return_dict_in_generate": True, "pad_token_id": 0}
    with gated(model, streaming=heads, sink=1, recent=3):
        cached = model.generate(ids, use_cache=True, **options)
        again = model.generate(ids, use_cache=False, **options)
    full = model.generate(ids, use_cache=True, **options)
    for first, second in zip(cached.scores, again.scores, strict=True):
        assert float((first - second).nan_to_num(0, 0, 0).abs().max()) < 1e-9
    assert float((full.scores[0] - cached.scores[0]).nan_to_num(0, 0, 0).abs().max()) > 1e-4


def test_inside_of_a_captured_run_a_layer_counts_once():
    model = build("bert")
    with torch.no_grad(), captured(model) as run, gated(model, streaming=["encoder.0.0"]):
        model(**batch_of(model))
    assert {len(values) for values in run.values.values()} == {1}


def test_what_cannot_stream_is_refused():
    longformer, marian = build("longformer"), build("marian")
    with (
        refused(longformer, UnsupportedModel, "streaming expects scores of queries x keys"),
        gated(longformer, streaming=["encoder.0.0"]),
    ):
        answers(longformer)
    with (
        refused(marian, HeadError, "streaming expects heads of self-attention"),
        gated(marian, streaming=["cross.0.0"]),
    ):
        raise AssertionError
    llama = build("llama")
    llama.config._attn_implementation_internal = "flex_attention"
    with (
        pytest.raises(UnsupportedModel, match="the attention kernel 'flex_attention'") as error,
        gated(llama, streaming=["decoder.0.0"]),
    ):
        raise AssertionError
    assert 'attn_implementation="eager" or "sdpa"' in error.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"streaming": ["encoder.0.0"], "recent": 0}, "`recent` expects a whole number from 1"),
        ({"streaming": ["encoder.0.0"], "sink": 1.5}, "`sink` expects a whole number from 0"),
        ({"sink": 2}, "`sink` and `recent` are the window of streaming heads"),
        ({"streaming": "encoder.0.0"}, "expected a list of heads"),
        ({"streaming": ["encoder.0.99"]}, "encoder"),
        ({"neurons": {("encoder", 0): [1]}, "fill": Streaming()}, "`neurons` expect zeros"),
    ],
)
def test_wrong_arguments(arguments, message):
    model = build("bert")
    with pytest.raises(HeadError, match=message), gated(model, **arguments):
        pass
