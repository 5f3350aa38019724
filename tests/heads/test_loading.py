"""Saved models where deadhead is not installed: by their config alone, or by the loader in the
folder.
"""

import json
import subprocess
import sys

import pytest
import torch
import transformers
from folders import config_of, edit_record

from deadhead.errors import FolderError
from deadhead.heads import discover, head_means, load, load_pruned, prune, save
from deadhead.heads.load_pruned import load as load_alone
from deadhead.heads.model_card import HOW
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, limit, uneven

# without deadhead: loads each folder with the file in it, and keeps what the model answers
ALONE = """
import importlib.util, sys
from pathlib import Path
import torch
sys.modules["deadhead"] = None  # importing it is an error
for folder in map(Path, sys.argv[1:]):
    spec = importlib.util.spec_from_file_location("load_pruned", folder / "load_pruned.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load(folder).eval()
    batch = torch.load(folder / "batch.pt", weights_only=True)
    with torch.no_grad():
        torch.save(model(**batch)[0], folder / "answer.pt")
    print(type(model).__module__.split(".")[0])
assert not [name for name in sys.modules if name.startswith("deadhead.")]
"""


def emptied(family, **options):
    """A model that lost all heads of its first layer, some of the others, and neurons."""
    model = build(family)
    layout = discover(model, neurons=True)
    first = layout.attentions[0]
    heads = [*first.heads, *(head for head in uneven(model) if head not in first.heads)]
    neurons = {
        (f.block, f.layer): f.kept if n == 0 else f.kept[1 : 3 + n]
        for n, f in enumerate(layout.feed_forwards)
    }
    if options.pop("fill", False):
        options["fill"] = head_means(model, [batch_of(model)], neurons=True)
    return prune(model, heads, neurons=neurons, **options)


def halved(family):
    """A model that lost the same number of heads and neurons in every layer."""
    model = build(family)
    layout = discover(model, neurons=True)
    heads = [h for a in layout.attentions for g in a.groups[: len(a.groups) // 2] for h in g]
    neurons = {(f.block, f.layer): f.kept[::2] for f in layout.feed_forwards}
    return prune(model, heads, neurons=neurons)


@pytest.mark.slow
def test_a_folder_loads_where_deadhead_cannot_be_imported(tmp_path):
    """Conv1D, a fused projection, layers at their old width, biases that the class lacks."""
    expected = {}
    for family, fill in (("bert", False), ("gpt2", False), ("t5", True), ("llama", True)):
        model, folder = emptied(family, fill=fill), tmp_path / family
        save(model, folder)
        batch = batch_of(model)
        torch.save(batch, folder / "batch.pt")
        with torch.no_grad():
            expected[folder] = model(**batch)[0]
        assert HOW["loader"] in (folder / "README.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, expected)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["transformers"] * len(expected)
    for folder, answer in expected.items():
        assert (torch.load(folder / "answer.pt", weights_only=True) - answer).abs().max() < 1e-9


@pytest.mark.parametrize(
    "family",
    slow_but("albert deberta xlnet", ["xlnet", "bart", "olmo2", "deberta", "vit", "albert"]),
)
def test_the_loader_builds_what_deadhead_loads(family, tmp_path):
    model = emptied(family) if family != "albert" else prune(build(family), ["encoder.0.1"])
    save(model, tmp_path)
    alone, ours = load_alone(tmp_path).eval(), load(tmp_path).eval()
    assert type(alone) is type(ours)
    assert alone.dtype == ours.dtype
    shapes = {name: value.shape for name, value in alone.state_dict().items()}
    assert shapes == {name: value.shape for name, value in ours.state_dict().items()}
    assert apart(answers(alone), answers(model)) < limit(model)
    assert apart(answers(alone), answers(build(family))) > 1e-3


def test_the_loader_refuses_weights_that_do_not_fit(tmp_path):
    save(emptied("bert"), tmp_path)
    file = tmp_path / load_pruned.PLAN
    plan = json.loads(file.read_text())
    plan["shapes"]["bert.encoder.layer.0.attention.self.no_such_weight"] = [2]
    file.write_text(json.dumps(plan))
    with pytest.raises(ValueError, match="no_such_weight"):
        load_alone(tmp_path)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_even_layers_load_with_plain_transformers(family, tmp_path):
    model = halved(family)
    before = model.config.to_dict()
    save(model, tmp_path)
    assert model.config.to_dict() == before
    assert not (tmp_path / "load_pruned.py").exists()
    assert HOW["plain"] in (tmp_path / "README.md").read_text(encoding="utf-8")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto").eval()
    assert apart(answers(loaded), answers(model)) < limit(model)
    assert loaded.num_parameters() == model.num_parameters() < build(family).num_parameters()
    ours = load(tmp_path).eval()
    assert discover(ours, neurons=True) == discover(model, neurons=True)
    assert ours.config.num_attention_heads == before["num_attention_heads"]
    assert ours.config.intermediate_size == before["intermediate_size"]
    assert ours.config.deadhead == model.config.deadhead
    assert apart(answers(ours), answers(model)) == 0


def test_a_width_that_the_rotary_frequencies_do_not_have_is_not_written(tmp_path):
    """Plain transformers would read every weight and build other frequencies."""
    model = build("mistral4").float()  # its experts cannot compute in double precision
    heads = [head for a in discover(model).attentions for head in a.heads[: a.size // 2]]
    whole = answers(model)
    save(prune(model, heads), tmp_path)
    assert apart(answers(model), whole) > 1e-3
    assert "unpruned" not in config_of(tmp_path)["deadhead"]
    assert apart(answers(model), answers(load_alone(tmp_path).eval())) < limit(model)


def test_sizes_that_only_look_right_are_not_written(tmp_path):
    """BERT computes the width of a head from the number of heads: the config would be wrong."""
    model = halved("bert")
    save(model, tmp_path)
    assert config_of(tmp_path)["num_attention_heads"] == model.config.num_attention_heads
    assert (tmp_path / "load_pruned.py").exists()


@pytest.mark.parametrize("sizes", [{"vocab_size": 5}, {"num_attention_heads": 2**60}, 7])
def test_a_damaged_list_of_sizes_is_refused(sizes, tmp_path):
    save(halved("llama"), tmp_path)
    edit_record(tmp_path, unpruned=sizes)
    with pytest.raises(FolderError, match="can be loaded"):
        load(tmp_path)


def test_a_saved_model_leaves_no_loader_of_another(tmp_path):
    save(emptied("bert"), tmp_path / "first")
    again = load(tmp_path / "first")
    save(again, tmp_path / "padded", form="padded")
    assert not (tmp_path / "padded" / "load_pruned.py").exists()
    save(build("bert"), tmp_path / "first")
    assert not [*(tmp_path / "first").glob("load_pruned.*")]
