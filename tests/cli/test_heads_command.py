"""`deadhead heads`, help, versions and wrong usage: output, exit codes, no traceback."""

import json
import subprocess
import sys

import pytest
from command_line import clean

import deadhead
from architectures.tiny import tiny
from deadhead.files.hub import located
from deadhead.heads import load, prune, save
from deadhead.world import MODELS


def test_the_version(run_command):
    assert run_command("--version") == (0, f"deadhead {deadhead.__version__}\n", "")


def test_a_user_s_mistake_in_a_real_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "deadhead", "heads", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"FolderError: {tmp_path} has no config.json.\n  Hint: ")


WRONG_USAGE = [
    ("heads",),
    ("heads", "somewhere", "--no-such-option"),
    ("no-such-command",),
    ("prune", "somewhere", "--out", "there"),
    (
        "prune",
        "somewhere",
        "--out",
        "there",
        "--remove-heads",
        "encoder.0.0",
        "--remove-random",
        "50",
    ),
    ("export", "somewhere"),
]


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_ends_with_2(words, run_command):
    done = run_command(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err
    assert clean(done)


def test_heads_as_a_map(run_command, bert):
    done = run_command("heads", bert)
    assert (done.code, done.err) == (0, "")
    assert "BertLMHeadModel: 8 heads" in done.out
    assert done.out.count("● ● ● ●") == 2
    assert done.out.count("4 of 4") == 2


def test_a_bundled_model_has_a_name(run_command):
    done = run_command("heads", "world/encoder", "--json")
    assert done.code == 0, done.err
    assert located("world/encoder") == str(MODELS / "encoder")
    assert json.loads(done.out)["heads"] == 40


def test_heads_as_json(run_command, bert):
    facts = json.loads(run_command("heads", bert, "--json").out)
    assert (facts["heads"], facts["removed"], facts["skipped"]) == (8, [], {})
    assert [
        (r["block"], r["layer"], r["built"], r["left"], r["width"]) for r in facts["layers"]
    ] == [("encoder", layer, 4, [0, 1, 2, 3], 8) for layer in (0, 1)]
    model = load(bert)
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["attention_parameters"] == 2 * 4 * (
        32 * 32 + 32
    )  # q, k, v and o, with their biases, in two layers
    assert facts["layers"][0]["parameters_per_head"] == 8 * 32 * 4 + 8 * 3


def test_neurons_of_each_layer(run_command, bert, tmp_path):
    assert "neurons" not in run_command("heads", bert).out
    model = prune(load(bert), neurons={("encoder", 1): range(8)})
    save(model, tmp_path / "pruned")
    done = run_command("heads", tmp_path / "pruned", "--neurons")
    assert (done.code, done.err) == (0, "")
    assert "48 of 48" in done.out
    assert "40 of 48" in done.out
    facts = json.loads(run_command("heads", tmp_path / "pruned", "--neurons", "--json").out)
    assert [(r["layer"], r["left"], r["removed"]) for r in facts["feed_forwards"]] == [
        (0, 48, ""),
        (1, 40, "0-7"),
    ]
    per_neuron = {r["parameters_per_neuron"] for r in facts["feed_forwards"]}
    assert per_neuron == {32 + 1 + 32}  # a row with its bias, and a column


def test_heads_of_a_pruned_model(run_command, bert, tmp_path):
    run_command("prune", bert, "--remove-heads", "encoder.0.1,encoder.0.2", "--out", tmp_path)
    assert "● · · ●" in run_command("heads", tmp_path).out
    assert json.loads(run_command("heads", tmp_path, "--json").out)["removed"] == [
        "encoder.0.1",
        "encoder.0.2",
    ]


def test_heads_that_share_weights_are_explained(run_command, llama, tmp_path):
    printed = run_command("heads", llama).out
    assert "Every 2 consecutive heads share one key/value head" in printed
    assert "copied" not in printed
    expand = ["--remove-heads", "decoder.0.1", "--groups", "expand", "--out", tmp_path / "single"]
    assert run_command("prune", llama, *expand).code == 0
    printed = run_command("heads", tmp_path / "single").out
    assert "Key/value heads were copied in layer 0, where fewer" in printed
    save(tiny("albert"), tmp_path)
    assert "a removed head is removed from all of them" in run_command("heads", tmp_path).out


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_check(family, run_command, request):
    folder = request.getfixturevalue(family)
    done = run_command("heads", folder, "--check", "--json")
    assert done.code == 0
    check = json.loads(done.out)["check"]
    cases = ("uneven", "uneven, means", "empty layer", "empty layer, means")
    others = {"both, uneven", "both, empty layer"}
    if family == "llama":  # its heads share keys and values
        others.add("single heads, key/value heads copied")
    assert set(check) == {f"{u}, {case}" for u in ("heads", "neurons") for case in cases} | others
    assert all(c["holds"] and c["effect"] > 0 and c["generated"] is True for c in check.values())
    if family == "bert":  # the same as a table
        assert run_command("heads", folder, "--check").out.count("yes") == 10


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("llama", {"vocab_size": 18}),
        pytest.param("bart", {"vocab_size": 18}, marks=pytest.mark.slow),
        pytest.param("fsmt", {"src_vocab_size": 40, "tgt_vocab_size": 18}, marks=pytest.mark.slow),
    ],
)
def test_the_check_of_a_small_vocabulary(family, sizes, run_command, tmp_path):
    save(tiny(family, **sizes), tmp_path)
    done = run_command("heads", tmp_path, "--check", "--device", "cpu", "--json")
    assert (done.code, done.err) == (0, "")
    assert all(c["holds"] and c["effect"] > 0 for c in json.loads(done.out)["check"].values())


def test_a_check_that_fails_ends_with_1(run_command, bert, monkeypatch):
    monkeypatch.setattr("deadhead.verify.proof.prune", lambda model, heads, **_: model)
    done = run_command("heads", bert, "--check", "--json")
    assert done.code == 1
    assert not any(c["holds"] for c in json.loads(done.out)["check"].values())
    assert done.err.startswith("DeadheadError: the proof does not hold")


def test_a_model_that_is_not_there(run_command):
    done = run_command("heads", "no/such-model-anywhere")
    assert (done.code, done.out) == (1, "")
    assert "FolderError" in done.err
    assert clean(done)
