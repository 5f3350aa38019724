"""`deadhead prune`: what it writes and prints, and what it refuses."""

import json

import pytest
import transformers
from command_line import clean

from deadhead.heads import discover, load
from deadhead.layout import HeadLayout
from deadhead.ranking import Ranking

WAYS = [
    (("--remove-heads", "encoder.0.1,encoder.1.3"), 2),
    (("--remove-random", "50", "--seed", "3"), 4),
    (("--remove-random", "50", "--per", "layer"), 4),
    (("--remove-heads-of-layers", "top 1"), 4),
    (("--keep-per-layer", "13"), 4),
]


@pytest.mark.parametrize(("how", "missing"), WAYS, ids=[" ".join(w) for w, _ in WAYS])
def test_prune(how, missing, run_command, bert, tmp_path):
    done = run_command("prune", bert, *how, "--out", tmp_path, "--json")
    assert (done.code, done.err) == (0, "")
    facts = json.loads(done.out)
    model = load(tmp_path)
    assert len(facts["removed"]) == missing
    assert facts["left"] == len(discover(model)) == 8 - missing
    assert facts["removed"] == [str(h) for h in discover(model).removed]
    assert facts["parameters"] == [
        sum(p.numel() for p in m.parameters()) for m in (load(bert), model)
    ]
    assert facts["parameters"][0] > facts["parameters"][1]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("hello")["input_ids"] == [1]


@pytest.mark.parametrize("form", ["compact", "padded"])
def test_prune_drops_the_bias_of_emptied_layers_with_a_flag(form, run_command, bert, tmp_path):
    for name, words in (("kept", ()), ("dropped", ("--drop-output-bias",))):
        how = ("--remove-heads-of-layers", "bottom 1", "--form", form, *words)
        assert run_command("prune", bert, *how, "--out", tmp_path / name).code == 0
    biases = [
        load(tmp_path / name).bert.encoder.layer[0].attention.output.dense.bias
        for name in ("kept", "dropped")
    ]
    assert [bool(bias.any()) for bias in biases] == [True, False]


def test_the_same_seed_the_same_heads(run_command, bert, tmp_path):
    def drawn(seed):
        how = ("--remove-random", 50, "--seed", seed, "--force", "--json")
        return json.loads(run_command("prune", bert, *how, "--out", tmp_path).out)["removed"]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1


def save_ranking(layout, folder):
    """A ranking of these heads in their order."""
    scores = {head: float(i) for i, head in enumerate(layout)}
    Ranking(scores=scores, layout=layout, method="by hand").save(folder / "ranking.json")
    return ("--ranking", folder / "ranking.json")


@pytest.mark.parametrize("which", ["lowest", "highest"])
def test_prune_by_a_ranking(which, run_command, bert, tmp_path):
    layout = discover(load(bert))
    ranking = save_ranking(layout, tmp_path)
    out = ("--out", tmp_path / "out", "--json")
    done = run_command("prune", bert, f"--{which}", 2, *ranking, *out)
    assert done.code == 0, done.err
    heads = [str(h) for h in layout]
    assert json.loads(done.out)["removed"] == (heads[:2] if which == "lowest" else heads[-2:])


@pytest.mark.parametrize("heads", [2, 6])
def test_a_ranking_of_another_model_is_refused(heads, run_command, bert, tmp_path):
    ranking = save_ranking(HeadLayout.grid(encoder=(2, heads)), tmp_path)
    done = run_command("prune", bert, "--remove-lowest", 2, *ranking, "--out", tmp_path / "out")
    assert (done.code, done.out) == (1, "")
    built = f"encoder 2 x {heads}, this one was built with encoder 2 x 4."
    assert f"the ranking is of a model with {built}" in done.err
    assert not (tmp_path / "out").exists()


def test_a_ranking_serves_the_pruned_model_too(run_command, bert, tmp_path):
    layout = discover(load(bert))
    ranking = save_ranking(layout, tmp_path)
    for model, out in ((bert, tmp_path / "once"), (tmp_path / "once", tmp_path / "twice")):
        done = run_command("prune", model, "--remove-lowest", 2, *ranking, "--out", out)
        assert done.code == 0, done.err
    assert discover(load(tmp_path / "twice")).removed == tuple(layout)[:4]


def test_prune_prints_what_it_did(run_command, bert, tmp_path):
    done = run_command(
        "prune", bert, "--remove-heads", "encoder.0.1", "--out", tmp_path, "--form", "padded"
    )
    assert done.out.startswith("1 of 8 heads removed, ")
    assert str(tmp_path) in done.out
    assert len(discover(transformers.AutoModel.from_pretrained(tmp_path))) == 8
    assert len(discover(load(tmp_path))) == 7


REFUSED = [
    (
        ("--remove-heads", "encoder.9.9"),
        "HeadError: head encoder.9.9: expected a layer of encoder, got 9.",
    ),
    (
        ("--remove-heads", "encoder.0.1,encoder.0.1"),
        "HeadError: expected each head once, got encoder.0.1 twice.",
    ),
    (("--remove-heads", "encoder.0.1,"), "HeadError: expected a head, got ''."),
    (
        ("--remove-heads-of-layers", "0-1"),
        "HeadError: expected some heads to remove, got every head of every layer.",
    ),
    (("--remove-lowest", "2"), "HeadError: --remove-lowest needs a ranking."),
    (("--remove-lowest", "2", "--ranking", "nowhere.json"), ""),
    (("--remove-random", "101"), ""),
    (
        ("--remove-random", "50", "--per", "page"),
        "OptionError: `per` of random expects model, block or layer, got 'page'.",
    ),
    (
        ("--remove-heads", "encoder.0.1", "--form", "paded"),
        "UnknownName: no form 'paded'. Did you mean 'padded'?",
    ),
]


@pytest.mark.parametrize(("how", "message"), REFUSED, ids=[" ".join(h) for h, _ in REFUSED])
def test_prune_refuses_with_1_and_writes_nothing(how, message, run_command, bert, tmp_path):
    done = run_command("prune", bert, *how, "--out", tmp_path / "out")
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert done.err
    assert clean(done)
    assert not (tmp_path / "out").exists()


def test_prune_does_not_split_a_group(run_command, llama, tmp_path):
    done = run_command("prune", llama, "--remove-heads", "decoder.0.1", "--out", tmp_path / "out")
    assert done.code == 1
    assert "GroupError" in done.err
    assert "Hint: remove whole groups" in done.err


@pytest.mark.parametrize("claimed", ["float32", "bfloat16", None])
def test_prune_prints_what_it_kept(claimed, run_command, tmp_path):
    """The precision and the files of the source; one line where config.json is wrong."""
    build = transformers.BertModel(
        transformers.BertConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16
        )
    )
    build.to("cpu").bfloat16().save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(
        json.dumps({**config, "dtype": claimed, "architectures": ["BertForTokenClassification"]})
    )
    (tmp_path / "model" / "LICENSE").write_text("kept")
    done = run_command(
        "prune", tmp_path / "model", "--remove-random", 50, "--out", tmp_path / "out"
    )
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert done.err.startswith(
        f"note: config.json of {tmp_path / 'model'} names BertForTokenClassification, but the "
    )
    assert "weights in bfloat16, as in the source: " in done.out
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("model", "out")]
    assert (
        sizes[1] < sizes[0]
    )  # whatever config.json says, a model of 16 bits must not grow when heads leave it
    assert "kept from the source: LICENSE\n" in done.out
    how = ("--remove-random", 50, "--dtype", "float32", "--json")
    words = ("prune", tmp_path / "model", *how, "--out", tmp_path / "other")
    facts = json.loads(run_command(*words).out)
    assert (facts["dtype"], facts["kept_files"]) == ("float32", ["LICENSE"])
    assert facts["bytes"] == (tmp_path / "other" / "model.safetensors").stat().st_size


def test_single_heads_of_a_group(run_command, llama, tmp_path):
    words = ("prune", llama, "--remove-heads", "decoder.0.1", "--out", tmp_path / "single")
    refused = run_command(*words)
    assert refused.code == 1
    assert "heads 0-1 read one key/value head" in refused.err
    assert "--groups expand" in refused.err
    done = run_command(*words, "--groups", "expand")
    assert (done.code, done.err) == (0, "")
    assert "1 of 8 heads removed" in done.out
    assert "key/value cache: 256 -> 320 bytes for each token (+25.0%)" in done.out
    assert len(discover(load(tmp_path / "single"))) == 7
    drawn = ("prune", llama, "--remove-random-k", 3, "--out", tmp_path / "three")
    assert "cannot remove exactly 3 heads" in run_command(*drawn).err
    facts = json.loads(run_command(*drawn, "--groups", "expand", "--json").out)
    assert (len(facts["removed"]), facts["group"]) == (3, 2)
    assert "'expnad'" in run_command(*drawn, "--groups", "expnad").err


def test_whole_groups_are_the_default(run_command, llama, tmp_path):
    done = run_command("prune", llama, "--remove-random", 50, "--out", tmp_path / "half")
    assert "up to 2 heads share a key/value head: whole groups of them were" in done.out
    assert "--groups expand" in done.out
    groups = [group for a in discover(load(llama)).attentions for group in a.groups]
    left = set(discover(load(tmp_path / "half")))
    assert len(left) == 4
    assert all(left.issuperset(group) or left.isdisjoint(group) for group in groups)
