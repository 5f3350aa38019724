"""Attention patterns: heads built to read one place, and the model's own attention maps."""

from typing import Any

import pytest
import torch
from transformers import RobertaConfig, RobertaModel, ViTModel

from architectures.configs import shrunk
from architectures.tiny import tiny
from deadhead import discover, prune
from deadhead.errors import UnsupportedModel
from deadhead.measures import MEASURES, MeasureInputs, measure
from deadhead.measures.patterns import KEYS, SCORES, needle_size, patterns
from deadhead.registry.options import OptionError

SMALL = {"sequences": 3, "length": 8}


def by_hand(attention, ids, random):
    """The scores of the heads of one layer, token by token, by looking for the earlier copy."""
    sums: dict[str, list[torch.Tensor]] = {score: [] for score in KEYS}
    for row, tokens in enumerate(ids.tolist()):
        for query in range(1, len(tokens)):
            if tokens[query] not in random:
                continue
            sums["previous_token"].append(attention[row, :, query, query - 1])
            sums["first_token"].append(attention[row, :, query, 0])
            earlier = tokens.index(tokens[query])
            if earlier < query:
                sums["duplicate_token"].append(attention[row, :, query, earlier])
                sums["induction"].append(attention[row, :, query, earlier + 1])
    return {score: torch.stack(values).mean(0) for score, values in sums.items()}


def with_inputs(model, **options):
    """The scores, and the inputs of the model's forward passes."""
    calls: list[dict[str, Any]] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append(kwargs), with_kwargs=True
    )
    try:
        return patterns(model, **options), calls
    finally:
        hook.remove()


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "t5", "marian", "deberta-v2"])
def test_scores_are_those_of_the_maps_that_the_model_returns(family):
    model = tiny(family, **({} if family == "deberta-v2" else {"attn_implementation": "sdpa"}))
    kernel = model.config._attn_implementation
    scores, (inputs, *_) = with_inputs(model, **SMALL)
    assert model.config._attn_implementation == kernel
    counts = torch.bincount(inputs["input_ids"][0], minlength=99)
    assert int((counts == 2).sum()) == SMALL["length"]
    if family != "deberta-v2":
        model.set_attn_implementation("eager")
    with torch.no_grad():
        answer = model(**inputs, output_attentions=True)
    blocks = {"encoder": ("encoder_attentions", "input_ids")}
    blocks |= {"decoder": ("decoder_attentions", "decoder_input_ids")}
    if not model.config.is_encoder_decoder:
        blocks = {discover(model).blocks[0]: ("attentions", "input_ids")}
    assert {name.split(".")[0] for name in scores["induction"]} == {*blocks}
    for block, (attentions, ids) in blocks.items():
        for layer, attention in enumerate(answer[attentions]):
            random = {int(t) for t in (counts == 2).nonzero()}
            for row in inputs["input_ids"]:
                random |= {int(t) for t in row if (row == t).sum() == 2}
            for score, values in by_hand(attention, inputs[ids], random).items():
                got = [scores[score][f"{block}.{layer}.{head}"] for head in range(len(values))]
                assert got == pytest.approx(values.tolist(), abs=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "marian"])
def test_retrieval_and_streaming_are_those_of_the_maps(family):
    model = tiny(family)
    window = {"sink": 2, "recent": 3}
    scores, calls = with_inputs(model, sequences=3, length=20, **window)
    reads_back = family in ("gpt2", "llama", "marian")
    assert len(calls) == 1 + reads_back  # sequences with needles are for decoders
    model.set_attn_implementation("eager")
    for inputs, with_needle in zip(calls, (False, True), strict=False):
        with torch.no_grad():
            answer = model(**inputs, output_attentions=True)
        names = {"encoder": "input_ids", "decoder": "decoder_input_ids"}
        if not model.config.is_encoder_decoder:
            names = {discover(model).blocks[0]: "input_ids"}
        for block, name in names.items():
            maps = answer.get(f"{block}_attentions") or answer.attentions
            for layer, attention in enumerate(maps):
                rows = inputs[name].tolist()
                for head in range(attention.shape[1]):
                    one, at = f"{block}.{layer}.{head}", attention[:, head]
                    if with_needle and block == "decoder":
                        hits = needle_hits(at, rows)
                        assert scores["retrieval"][one] == pytest.approx(hits, abs=1e-6)
                    elif not with_needle:
                        near, later = window_and_later(at, rows, **window)
                        assert scores["streaming"][one] == pytest.approx(near, abs=1e-6)
                        if block == "encoder":
                            assert scores["retrieval"][one] == pytest.approx(later, abs=1e-6)


def needle_hits(attention, rows):
    """The share of the needle's tokens at the end that are read next in the needle before."""
    hits = []
    for row, tokens in enumerate(rows):
        size = needle_size(40)
        needle = tokens[-size:]
        begin = next(n for n in range(len(tokens)) if tokens[n : n + size] == needle)
        assert begin < len(tokens) - size
        assert all(tokens.count(token) == 2 for token in needle)
        for step in range(size - 1):
            most = int(attention[row, len(tokens) - size + step].argmax())
            hits.append(float(most == begin + step + 1))
    return sum(hits) / len(hits)


def window_and_later(attention, rows, sink, recent):
    """Mean attention to the window from the repeated tokens; and from the first ones to those."""
    near, later = [], []
    for row, tokens in enumerate(rows):
        start = next(n for n in range(3) if tokens[n : n + 20] == tokens[n + 20 : n + 40])
        for query in range(start + 20, start + 40):
            keys = range(len(tokens))
            inside = [k for k in keys if k < sink or abs(query - k) < recent]
            near.append(float(attention[row, query, inside].sum()))
            later.append(float(attention[row, query - 20, query]))
    return sum(near) / len(near), sum(later) / len(later)


def test_removed_heads_are_left_out_and_the_others_keep_their_names():
    model = tiny("llama")
    before = patterns(model, **SMALL)
    prune(model, ["decoder.1.0", "decoder.1.1"])
    after = patterns(model, **SMALL)
    for score in SCORES:
        assert {*before[score]} - {*after[score]} == {"decoder.1.0", "decoder.1.1"}
        assert after[score] == pytest.approx({h: before[score][h] for h in after[score]}, rel=1e-4)


def test_layers_that_share_weights_are_averaged_over_their_uses():
    assert len(patterns(tiny("albert"), **SMALL)["induction"]) == 4


def state(model):
    for path, module in model.named_modules():
        yield path, module.training, len(module._forward_hooks), len(module._forward_pre_hooks)
    yield model.config._attn_implementation, torch.random.get_rng_state().tolist()
    yield from ((p.requires_grad, p.sum().item()) for p in model.parameters())


def test_the_model_is_left_as_it_was_also_after_an_error(monkeypatch):
    model = tiny("gpt2").train()
    before = list(state(model))
    patterns(model, **SMALL)
    assert list(state(model)) == before
    for problem, words in (
        (RuntimeError("sizes differ\nat line 3"), "RuntimeError: sizes differ"),
        (IndexError(), "IndexError: no reason given"),
        (UnsupportedModel("not this one.", "another"), "^not this one"),
    ):

        def broken(*args, problem=problem, **kwargs):
            raise problem

        monkeypatch.setattr(model.lm_head, "forward", broken)
        with pytest.raises(UnsupportedModel, match=words):
            patterns(model, **SMALL)
        assert list(state(model)) == before


def test_the_seed_decides():
    model = tiny("gpt2")
    assert patterns(model, **SMALL, seed=1) == patterns(model, **SMALL, seed=1)
    assert patterns(model, **SMALL, seed=1) != patterns(model, **SMALL, seed=2)


class FewTokens:
    """A tokenizer of 30 tokens, most of them special."""

    all_special_ids = tuple(range(20))
    bos_token_id, sep_token_id, eos_token_id, cls_token_id = None, 4, None, 3

    def __len__(self):
        return 30


def test_special_tokens_are_at_the_ends_and_nowhere_else():
    _, (inputs, *_) = with_inputs(tiny("bert"), sequences=4, length=50, tokenizer=FewTokens())
    ids = inputs["input_ids"]
    assert ids.shape == (4, 1 + 2 * 10 + 1)  # no more than 10 tokens are not special
    assert {*ids[:, 0].tolist()} == {3}
    assert {*ids[:, -1].tolist()} == {4}
    assert {*ids[:, 1:-1].flatten().tolist()} == set(range(20, 30))
    model = tiny("llama")  # a decoder's text has no end; the config knows 1 and 2
    _, (inputs, *_) = with_inputs(model, sequences=4, length=96)
    assert {*inputs["input_ids"][:, 0].tolist()} == {model.config.bos_token_id}
    assert {*inputs["input_ids"][:, 1:].flatten().tolist()} == {0, *range(3, 99)}


def test_a_short_model_gets_short_sequences_and_a_shorter_one_is_refused():
    for places in (14, 15):
        _, (inputs, *_) = with_inputs(tiny("gpt2", max_position_embeddings=places), sequences=1)
        assert inputs["input_ids"].shape == (1, 1 + 2 * ((places - 1) // 2))
    with pytest.raises(UnsupportedModel, match="expects a model that reads 4 tokens twice"):
        patterns(tiny("gpt2", max_position_embeddings=8))
    with pytest.raises(UnsupportedModel, match=r"special\.\s+Hint: name a model that knows more"):
        patterns(tiny("gpt2", vocab_size=4))
    config = shrunk(RobertaConfig, {"max_position_embeddings": 16, "pad_token_id": 1})
    _, (inputs, *_) = with_inputs(RobertaModel(config), sequences=1)  # which counts places from 2
    assert inputs["input_ids"].shape == (1, 14)


def test_models_of_images_are_refused():
    model = ViTModel(shrunk(ViTModel.config_class))
    with pytest.raises(UnsupportedModel, match="expects a model of text, got ViTModel"):
        patterns(model)


def test_as_a_measure():
    model = tiny("gpt2")
    inputs = MeasureInputs(lambda split, most: [], lambda split, most: {})
    assert measure("patterns", **SMALL)(model, inputs) == patterns(model, **SMALL)
    maps = MEASURES["patterns"].maps("patterns")
    assert [*maps] == [f"patterns.{score}" for score in SCORES]
    assert len({words.label for words in maps.values()}) == len(SCORES)
    trials = [
        {"after": {"induction": {"decoder.0.0": high, "decoder.0.1": 0.1}}} for high in (0.5, 1)
    ]
    assert MEASURES["patterns"].finding([*trials, {}]) == (
        "The highest attention of a head to each place is: induction 0.75 (2 trials)."
    )
    assert MEASURES["patterns"].finding([{}]) is None


@pytest.mark.parametrize("wrong", [{"length": 3}, {"sequences": 0}, {"seed": -1}])
def test_wrong_options(wrong):
    with pytest.raises(OptionError, match=r"of patterns expects a whole number from"):
        patterns(tiny("gpt2"), **wrong)
