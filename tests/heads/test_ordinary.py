"""Even models become ordinary ones: plain transformers reads them, with no trace of deadhead."""

import json
import subprocess
import sys

import pytest
import torch

from deadhead.heads import discover, gated, load, prune, save
from deadhead.heads.loading import make_ordinary
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, limit

# loads a folder by the class of transformers that its config names
ALONE = """
import json, sys
sys.modules["deadhead"] = None  # importing it is an error
import torch, transformers
name = json.load(open(sys.argv[1] + "/config.json"))["architectures"][0]
model = getattr(transformers, name).from_pretrained(sys.argv[1], dtype="auto").eval()
with torch.no_grad():
    answer = model(**torch.load(sys.argv[1] + "/batch.pt", weights_only=True))[0]
torch.save(answer, sys.argv[1] + "/answer.pt")
"""


def halves(model, kinds):
    """Other units in each layer, the same number of them."""
    layout = discover(model, neurons=True)
    heads = [h for n, a in enumerate(layout.attentions) for g in _half(a.groups, n) for h in g]
    neurons = {f.layer_key: _half(f.kept, n) for n, f in enumerate(layout.feed_forwards)}
    return (heads if "heads" in kinds else []), (neurons if "neurons" in kinds else {})


def _half(units, layer):
    return units[: len(units) // 2] if layer % 2 else units[len(units) // 2 :]


CASES = [
    ("bert", "neurons", {"intermediate_size": 24}),
    ("llama", "heads", {"num_attention_heads": 2, "num_key_value_heads": 1}),
    ("qwen2", "heads neurons", None),  # its config does not list the width of a head
    ("gpt2", "neurons", {"n_inner": 64}),  # None stands for four times the width
    ("bart", "neurons", {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24}),
    ("t5", "neurons", {"d_ff": 24}),
    ("opt", "neurons", {"ffn_dim": 24}),
    ("distilbert", "neurons", {"hidden_dim": 24}),
    ("qwen3", "heads neurons", None),
    ("mistral", "heads neurons", None),
]


@pytest.mark.parametrize(("family", "kinds", "fields"), slow_but("bert qwen2 gpt2 bart", CASES))
def test_gated_pruned_and_reloaded_are_one_model(family, kinds, fields, tmp_path):
    model = build(family)
    heads, neurons = halves(model, kinds)
    with gated(model, closed=heads, neurons=neurons):
        masked = answers(model)
    prune(model, heads, neurons=neurons)
    changed = make_ordinary(model)
    assert changed
    assert fields in (None, changed)
    assert apart(answers(model), masked) < limit(model)
    assert apart(masked, answers(build(family))) > 1e-3
    assert not discover(model, neurons=True).removed
    save(model, tmp_path)
    assert "deadhead" not in json.loads((tmp_path / "config.json").read_text())
    assert not (tmp_path / "load_pruned.py").exists()
    ordinary = type(model).from_pretrained(tmp_path, dtype="auto").eval()
    assert apart(answers(ordinary), masked) < limit(model)
    assert apart(answers(load(tmp_path).eval()), masked) < limit(model)
    again = discover(model, neurons=True)
    assert prune(model, again.attentions[0].groups[0]) is model  # it can be cut further


@pytest.mark.slow
def test_a_process_without_deadhead_computes_the_same(tmp_path):
    model = build("llama")
    heads, neurons = halves(model, "heads neurons")
    make_ordinary(prune(model, heads, neurons=neurons))
    save(model, tmp_path)
    torch.save(batch_of(model), tmp_path / "batch.pt")
    subprocess.run([sys.executable, "-c", ALONE, tmp_path], check=True, timeout=300)
    answer = torch.load(tmp_path / "answer.pt", weights_only=True)
    with torch.no_grad():
        assert (answer - model(**batch_of(model))[0]).abs().max() < limit(model)


@pytest.mark.parametrize(
    ("family", "kinds"),
    slow_but("bert t5", [("bert", "heads"), ("t5", "heads"), ("gpt2", "heads neurons")]),
)
def test_a_model_that_no_config_describes_stays_as_it_is(family, kinds):
    """Heads of BERT are as wide as their number says; those of T5 share a table of positions."""
    model = build(family)
    heads, neurons = halves(model, kinds)
    prune(model, heads, neurons=neurons)
    before = model.config.to_dict(), answers(model), discover(model, neurons=True)
    assert make_ordinary(model) == {}
    assert (model.config.to_dict(), discover(model, neurons=True)) == (before[0], before[2])
    assert apart(answers(model), before[1]) == 0


def test_uneven_layers_are_no_ordinary_model():
    model = build("llama")
    _, neurons = halves(model, "neurons")
    (key, numbers), *_ = neurons.items()
    prune(model, neurons={**neurons, key: numbers[1:]})
    assert make_ordinary(model) == {}
