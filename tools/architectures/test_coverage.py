"""The central promise: these architectures pass the proof, and the others say why they do not."""

from __future__ import annotations

import json
import sys

import pytest

from architectures import coverage
from architectures.coverage import NO_EFFECT, measure, measure_heads, measure_neurons, model_types
from architectures.tiny import tiny
from deadhead.files.hub import quiet
from deadhead.heads import discover
from slow import slow_but
from tiny_models import build

# One or two of each structure: relatives share the code that is tried here, and `python -m
# architectures.coverage` proves every type.
PROMISED = """
albert bart bert big_bird biogpt bloom codegen deberta deberta-v2 distilbert esm falcon fsmt gemma
gemma3 gpt2 gpt_bigcode gpt_neo gpt_neox gptj led llama longformer luke mixtral modernbert mpnet
nomic_bert olmo2 opt phi phi3 prophetnet qwen3 roformer stablelm t5 whisper vit clip xlm xlnet
"""
FAST = (
    "albert bert bloom deberta falcon fsmt gpt2 gpt_bigcode llama longformer phi3 t5 whisper vit "
    "xlnet"
)


@pytest.mark.parametrize("model_type", slow_but(FAST, PROMISED.split()))
def test_promised(model_type):
    with quiet():
        row = measure_heads(model_type, tiny(model_type))
    assert (row.status, row.mean_fill) == ("pass", "pass"), row
    assert row.single_heads in ("", "pass"), row
    assert row.model_type == model_type


@pytest.mark.parametrize(("model_type", "status"), [("jamba", "pass"), ("mamba", "n/a")])
def test_layers_of_states(model_type, status):
    """Beside attention they are left alone; by themselves they have no heads."""
    with quiet():
        assert measure(model_type).status == status


def test_what_is_no_attention_or_cannot_be_proved_says_why():
    with quiet():
        refused, elsewhere = measure("convbert"), measure("resnet")
    assert (refused.status, elsewhere.status) == ("refused", "n/a")
    assert "ConvBertSelfAttention" in refused.reason
    assert elsewhere.reason
    assert set(PROMISED.split()) <= set(model_types())


# Each has other names, another place or another form of the two matrices.
WITH_NEURONS = """
albert bert codegen distilbert falcon gpt2 gpt_neox lfm2 modernbert mobilebert phi3 prophetnet t5
wav2vec2 xlnet
"""


@pytest.mark.parametrize(
    "model_type", slow_but("bert gpt2 gpt_neox phi3 t5 xlnet", WITH_NEURONS.split())
)
def test_promised_with_neurons(model_type):
    with quiet():
        assert measure_neurons(build(model_type), with_heads=True) == "pass"


def test_a_row_of_the_table_has_heads_and_neurons():
    with quiet():
        row, refused = measure("gpt2"), measure("convbert")
    assert (row.status, row.mean_fill, row.neurons) == ("pass", "pass", "pass")
    assert (refused.status, refused.neurons) == ("refused", "pass")  # its heads alone are refused


def test_experts_say_why_they_do_not_pass():
    with quiet():
        alone, beside = measure_neurons(build("mixtral"), with_heads=True), build("exaone_moe")
        layout = discover(beside, neurons=True)
        assert measure_neurons(beside, with_heads=True) == "pass"
    assert "MixtralSparseMoeBlock is a mixture of experts" in alone
    assert [layer.layer for layer in layout.feed_forwards] == [0]
    assert "mixture of experts" in layout.skipped["model.layers.1.mlp"]
    assert "that all tokens share is kept whole" in layout.skipped["model.layers.1.mlp"]
    assert "share" not in alone


def test_layers_that_the_inputs_do_not_run_are_not_proved():
    """Here the text passes experts, and only the part for images has other layers."""
    with quiet():
        reason = measure_neurons(build("aria"), with_heads=True)
    assert reason.startswith(NO_EFFECT)
    assert "mixture of experts" in reason


@pytest.mark.slow
def test_the_survey_as_json(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coverage", "bert", "convbert", "resnet"])
    coverage.main()
    document = json.loads(capsys.readouterr().out)
    assert {"transformers", "torch"} < document.keys()
    rows = document["rows"]
    assert [(row["model_type"], row["status"]) for row in rows] == [
        ("bert", "pass"),
        ("convbert", "refused"),
        ("resnet", "n/a"),
    ]
    assert [row["mean_fill"] for row in rows] == ["pass", "", ""]
    assert [row["neurons"] == "pass" for row in rows] == [True, True, False]
