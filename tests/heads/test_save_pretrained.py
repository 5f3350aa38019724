"""Folders that `save_pretrained` writes: `load` reads them back, and plain transformers never reads
them wrongly.
"""

import pytest
import torch
import transformers
from folders import edit_config

from architectures.tiny import tiny
from deadhead.errors import FolderError
from deadhead.heads import discover, head_means, load, prune, save
from deadhead.heads.discover import find_sites
from deadhead.heads.output_bias import set_output
from deadhead.heads.prune import note_in_config
from deadhead.verify.proof import sample_neurons
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, uneven

CUTS = ("heads", "emptied", "neurons", "filled", "filled neurons", "dropped bias")
WHOLE = {"ignore_mismatched_sizes": True}  # asks transformers for random numbers where sizes differ


def cut(family, name):
    """A tiny model of this family, pruned in one of the ways above."""
    model = build(family)
    first = discover(model).attentions[0].heads
    if "neurons" in name:
        neurons = sample_neurons(discover(model, neurons=True), False)
        means = head_means(model, [batch_of(model)], neurons=True)
        return prune(model, neurons=neurons, fill=means if "filled" in name else None)
    if name == "filled":
        return prune(model, uneven(model), fill=head_means(model, [batch_of(model)]))
    heads = uneven(model) if name == "heads" else first
    return prune(model, heads, drop_output_bias=name == "dropped bias")


def with_biases(model):
    """The model with a bias in each output projection of attention, and every head."""
    sites = find_sites(model)
    for site in sites:
        weight = site.out.weight.detach().clone()
        bias = torch.linspace(-1, 1, weight.shape[0], dtype=weight.dtype)
        set_output(site, weight, bias)
    note_in_config(model, sites)
    return model


def load_by_transformers(model, folder, **options):
    """The same class, loaded without deadhead."""
    return type(model).from_pretrained(folder, dtype=torch.float64, **options).eval()


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("family", slow_but("gpt2 llama", ["bert", "llama", "gpt2", "t5"]))
def test_equal_through_load_and_never_wrong_without(family, name, tmp_path):
    model = cut(family, name)
    expected = answers(model)
    assert apart(expected, answers(build(family))) > 1e-3
    model.save_pretrained(tmp_path / "plain")
    again = load(tmp_path / "plain").eval()
    assert apart(expected, answers(again)) == 0
    assert discover(again, neurons=True) == discover(model, neurons=True)
    try:
        other = load_by_transformers(model, tmp_path / "plain")
    except (RuntimeError, ValueError):  # sizes differ, or biases were added
        return
    assert apart(expected, answers(other)) < 1e-9


@pytest.mark.parametrize("options", [{}, WHOLE, {"num_hidden_layers": 1}], ids=str)
@pytest.mark.parametrize("name", ["emptied", "filled"])
def test_plain_transformers_refuses_what_save_wrote(name, options, tmp_path):
    """With the reason, whatever it is asked to ignore or to leave out."""
    model = cut("llama", name)
    save(model, tmp_path)
    with pytest.raises(ValueError, match=r"this model is pruned; load it with deadhead\.load"):
        load_by_transformers(model, tmp_path, **options)
    assert apart(answers(model), answers(load(tmp_path).eval())) == 0


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_added_biases_alone(family, tmp_path):
    """All sizes fit the class, which has no such biases: transformers would drop them."""
    model = with_biases(build(family))
    expected = answers(model)
    assert apart(expected, answers(build(family))) > 1e-2
    save(model, tmp_path / "ours")
    model.save_pretrained(tmp_path / "plain")
    for folder in ("ours", "plain"):
        assert apart(expected, answers(load(tmp_path / folder).eval())) == 0
    load(tmp_path / "plain").save_pretrained(tmp_path / "again")  # what is loaded still says so
    for folder in ("ours", "plain", "again"):
        for options in ({}, WHOLE):
            with pytest.raises(ValueError, match="this model is pruned"):
                load_by_transformers(model, tmp_path / folder, **options)


def test_a_part_of_an_encoder_decoder(tmp_path):
    """An encoder that lost nothing is equal by itself; one with added biases is not handed out."""
    model = build("t5")
    prune(model, discover(model).attentions[-1].heads[:1])
    assert {head.block for head in discover(model).removed} == {"cross"}
    model.save_pretrained(tmp_path / "plain")
    part = transformers.T5EncoderModel
    encoder = part.from_pretrained(tmp_path / "plain", dtype=torch.float64).eval()
    ids = torch.tensor([[5, 9, 3]])
    with torch.no_grad():
        expected = model.get_encoder()(ids).last_hidden_state
        assert torch.equal(encoder(ids).last_hidden_state, expected)
    save(with_biases(model), tmp_path / "ours")
    model.save_pretrained(tmp_path / "plain")
    for folder in ("ours", "plain"):
        with pytest.raises(ValueError, match="this model is pruned"):
            part.from_pretrained(tmp_path / folder)


def test_a_model_that_names_its_own_file_of_weights(tmp_path):
    """The key that stops plain loading has a use of its own, which `load` respects."""
    model = build("bert")
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    edit_config(tmp_path, transformers_weights="other.safetensors")
    assert apart(answers(model), answers(load(tmp_path).eval())) == 0
    torch.save(model.state_dict(), tmp_path / "adapter_model.bin")  # transformers reads this pickle
    edit_config(tmp_path, transformers_weights="adapter_model.bin")
    with pytest.raises(FolderError, match=r"safetensors in .*, got 'adapter_model\.bin'"):
        load(tmp_path)


def test_weights_that_a_family_fuses_on_disk(tmp_path):
    """`save_pretrained` undoes what transformers did to the names and shapes of the weights."""
    model = tiny("mixtral")
    prune(model, uneven(model))
    model.save_pretrained(tmp_path)
    again = load(tmp_path).eval()
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
    assert discover(again) == discover(model)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        load_by_transformers(model, tmp_path)
