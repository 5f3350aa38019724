"""Batches that hold copies of their examples, and what generation runs once or more than once."""

import pytest
import torch

from deadhead import captured, gated, patch_effects, rank
from deadhead.errors import DataError, UnsupportedModel
from deadhead.heads.discover import discover
from tiny_models import build, hooks

PROMPT = {
    "input_ids": torch.tensor([[5, 6, 7, 8], [8, 9, 4, 3], [11, 2, 5, 9]]),
    "attention_mask": torch.ones(3, 4).long(),
}


def generate(model, prompt=PROMPT, **options):
    options = {"max_new_tokens": 4, "eos_token_id": None, "pad_token_id": 0, **options}
    text: torch.Tensor = model.generate(**prompt, **options)
    return text


@pytest.mark.parametrize("family", ["gpt2", "marian"])
@pytest.mark.parametrize(
    "options",
    [{"num_beams": 2}, {"num_return_sequences": 2, "do_sample": True}],
    ids=["beams", "samples"],
)
def test_resample_refuses_several_rows_of_an_example(family, options):
    model, free = build(family), generate(build(family))
    before = hooks(model)
    heads = [head for head in discover(model) if head.block == "decoder"]
    for prompt in (PROMPT, {name: value[:1] for name, value in PROMPT.items()}):
        with (
            pytest.raises(
                DataError, match="expects different examples in a batch, got copies"
            ) as error,
            gated(model, closed=heads, fill="resample"),
        ):
            generate(model, prompt, **options)
        assert "num_beams=1" in str(error.value.hint)
    assert hooks(model) == before
    with gated(model, closed=heads, fill="resample"):
        assert not torch.equal(generate(model), free)


def test_the_same_newest_token_is_no_copy():
    """Every example continues with the same token, which the cache makes the whole input."""
    model = build("gpt2")
    with torch.no_grad():
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    with gated(model, closed=list(discover(model)), fill="resample"):
        text = generate(model)
    assert text[:, 4:].unique().numel() == 1


def test_what_copies_the_batch_refuses_to_resample():
    model = build("bert")
    clean = {**PROMPT, "labels": PROMPT["input_ids"]}
    corrupt = {**clean, "input_ids": clean["input_ids"] + 20}
    before = hooks(model)

    def metric(outputs, batch):
        return outputs.logits[:, 0, 3]

    with gated(model, closed=["encoder.0.1"], fill="resample"):
        with pytest.raises(UnsupportedModel, match='without fill="resample"') as error:
            patch_effects(model, clean, corrupt, metric, progress=False)
        assert "head_means" in str(error.value.hint)
        with pytest.raises(UnsupportedModel, match='without fill="resample"'):
            rank(model, [clean], method="ablation", progress=False)
    with gated(model, closed=["encoder.0.1"]):
        assert patch_effects(model, clean, corrupt, metric, progress=False).values
    assert hooks(model) == before


def test_the_encoder_is_patched_in_generation_with_a_cache():
    """Generation runs the encoder once, so a run and positions fit it."""
    model = build("marian")
    other = {**PROMPT, "input_ids": PROMPT["input_ids"] + 20}
    with captured(model) as run:
        model(**other, decoder_input_ids=other["input_ids"])
    free = generate(model)
    heads = [head for head in discover(model) if head.block == "encoder"]
    for options in ({"fill": run}, {"positions": {"encoder": [0, 1]}}):
        with gated(model, closed=heads, **options):
            text, slowly = generate(model), generate(model, use_cache=False)
        assert torch.equal(text, slowly)
        assert not torch.equal(text, free)
