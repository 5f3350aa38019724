"""`deadhead heads`, `prune`, `bench`, `export`: output, exit codes, errors without traceback."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import transformers
from tokenizers import Tokenizer
from tokenizers import models as token_models

import deadhead
from deadhead import cli
from deadhead.heads import discover, load, save
from deadhead.heads.verify.tiny import tiny


class Done(NamedTuple):
    code: int
    out: str
    err: str


Type = Callable[..., Done]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    monkeypatch.setenv("COLUMNS", "150")

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["deadhead", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        return Done(int(left.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = Tokenizer(token_models.WordLevel({"[UNK]": 0, "hello": 1}, unk_token="[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    return save(tiny("bert"), tmp_path_factory.mktemp("models") / "bert", tokenizer)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tiny("llama"), tmp_path_factory.mktemp("models") / "llama")


def clean(done: Done) -> bool:
    return "Traceback" not in done.out + done.err


# -- the door


def test_the_version(typed: Type) -> None:
    assert typed("--version") == (0, f"deadhead {deadhead.__version__}\n", "")


@pytest.mark.parametrize("command", ["heads", "prune", "bench", "export"])
def test_every_command_has_help_with_examples(command: str, typed: Type) -> None:
    done = typed(command, "--help")
    assert done.code == 0
    assert f"deadhead {command} " in done.out.split("Example")[1]
    assert "--json" in done.out
    assert command in typed("--help").out


def test_shell_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--install-completion" in " ".join(option for p in _root().params for option in p.opts)
    script = "from deadhead.cli import main; main()"
    environment = {
        "_DEADHEAD_COMPLETE": "complete_bash",
        "COMP_WORDS": "deadhead pr",
        "COMP_CWORD": "1",
        "PATH": "/usr/bin:/bin",
    }
    code = f"import sys; sys.argv = ['deadhead']\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.split() == ["prune"]


def _root() -> Any:
    import typer

    return typer.main.get_command(cli.app)


def test_a_user_s_mistake_in_a_real_process(tmp_path: Path) -> None:
    code = "from deadhead.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "heads", str(tmp_path)],
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
    ("prune", "somewhere"),
    ("prune", "somewhere", "--out", "there"),
    ("prune", "somewhere", "--out", "there", "--heads", "encoder.0.0", "--random", "50"),
    ("prune", "somewhere", "--out", "there", "--random", "half"),
    ("prune", "somewhere", "--out", "there", "--random", "50", "--fill", "mean"),
    ("prune", "somewhere", "--out", "there", "--random", "50", "--text", "text.txt"),
    ("bench", "somewhere"),
    ("bench", "somewhere", "--against", "elsewhere", "--batch", "few"),
    ("export", "somewhere"),
]


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_ends_with_2(words: tuple[str, ...], typed: Type) -> None:
    done = typed(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err
    assert clean(done)


# -- heads


def test_heads_as_a_map(typed: Type, bert: Path) -> None:
    done = typed("heads", bert)
    assert (done.code, done.err) == (0, "")
    assert "BertLMHeadModel: 8 heads" in done.out
    assert done.out.count("● ● ● ●") == 2
    assert done.out.count("4 of 4") == 2


def test_heads_as_json(typed: Type, bert: Path) -> None:
    facts = json.loads(typed("heads", bert, "--json").out)
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


def test_heads_with_patterns(typed: Type, llama: Path) -> None:
    done = typed("heads", llama, "--patterns", "--device", "cpu")
    assert done.out.count("8 heads, 0 (00) to 1 (99)") == 4
    assert done.out.count("highest: decoder.") == 4
    scores = json.loads(typed("heads", llama, "--patterns", "--json").out)["patterns"]
    assert [*scores] == ["previous_token", "first_token", "duplicate_token", "induction"]
    assert {len(of_heads) for of_heads in scores.values()} == {8}
    done = typed("heads", llama, "--device", "cpu")
    assert done.code == 2
    assert "only --check and --patterns use a device" in " ".join(done.err.replace("│", "").split())


def test_heads_of_a_pruned_model(typed: Type, bert: Path, tmp_path: Path) -> None:
    typed("prune", bert, "--heads", "encoder.0.1,encoder.0.2", "--out", tmp_path)
    assert "● · · ●" in typed("heads", tmp_path).out
    assert json.loads(typed("heads", tmp_path, "--json").out)["removed"] == [
        "encoder.0.1",
        "encoder.0.2",
    ]


def test_heads_that_share_weights_are_explained(typed: Type, llama: Path, tmp_path: Path) -> None:
    assert "Every 2 consecutive heads share one key/value head" in typed("heads", llama).out
    save(tiny("albert"), tmp_path)
    assert "a removed head is removed from all of them" in typed("heads", tmp_path).out


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_check(family: str, typed: Type, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(family)
    done = typed("heads", folder, "--check", "--json")
    assert done.code == 0
    check = json.loads(done.out)["check"]
    choices = ("uneven", "a layer emptied")
    assert set(check) == {*choices, *(f"{choice}, mean fill" for choice in choices)}
    assert all(c["holds"] and c["effect"] > 0 and c["generated"] is True for c in check.values())
    assert typed("heads", folder, "--check").out.count("yes") == 4


def test_a_check_that_fails_ends_with_1(
    typed: Type, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deadhead.heads.verify.proof.prune", lambda model, heads, fill: model)
    done = typed("heads", bert, "--check", "--json")
    assert done.code == 1
    assert not any(c["holds"] for c in json.loads(done.out)["check"].values())
    assert done.err.startswith("DeadheadError: the proof does not hold")


def test_a_model_that_is_not_there(typed: Type) -> None:
    done = typed("heads", "no/such-model-anywhere")
    assert (done.code, done.out) == (1, "")
    assert "FolderError" in done.err
    assert clean(done)


def test_coverage(typed: Type) -> None:
    done = typed("heads", "--coverage", "--only", "bert, convbert,resnet", "--json")
    assert done.code == 0
    rows = json.loads(done.out)
    assert [(r["model_type"], r["status"]) for r in rows] == [
        ("bert", "pass"),
        ("convbert", "refused"),
        ("resnet", "n/a"),
    ]
    assert [r["mean_fill"] for r in rows] == ["pass", "", ""]
    assert all(
        {*r} == {"model_type", "status", "reason", "mean_fill"} and r["reason"] for r in rows
    )
    done = typed("heads", "--coverage", "--only", "bert")
    assert done.out.splitlines()[-2:] == ["1 pass, 0 refused, 0 n/a", "1 pass with mean fill too"]


def test_coverage_of_an_unknown_type(typed: Type) -> None:
    done = typed("heads", "--coverage", "--only", "brt")
    assert (done.code, done.out) == (1, "")
    assert "no model type 'brt'. Did you mean 'bert'?" in done.err


# -- prune


WAYS = [
    (("--heads", "encoder.0.1,encoder.1.3"), 2),
    (("--random", "50", "--seed", "3"), 4),
    (("--random", "50", "--per", "layer"), 4),
    (("--layers", "top 1"), 4),
    (("--keep", "13"), 4),
]


@pytest.mark.parametrize(("how", "missing"), WAYS, ids=[" ".join(w) for w, _ in WAYS])
def test_prune(how: tuple[str, ...], missing: int, typed: Type, bert: Path, tmp_path: Path) -> None:
    done = typed("prune", bert, *how, "--out", tmp_path, "--json")
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
def test_prune_drops_the_bias_of_emptied_layers_with_a_flag(
    form: str, typed: Type, bert: Path, tmp_path: Path
) -> None:
    for name, words in (("kept", ()), ("dropped", ("--drop-output-bias",))):
        assert (
            typed(
                "prune",
                bert,
                "--layers",
                "bottom 1",
                "--form",
                form,
                *words,
                "--out",
                tmp_path / name,
            ).code
            == 0
        )
    biases = [
        load(tmp_path / name).bert.encoder.layer[0].attention.output.dense.bias
        for name in ("kept", "dropped")
    ]
    assert [bool(bias.any()) for bias in biases] == [True, False]


def test_the_same_seed_the_same_heads(typed: Type, bert: Path, tmp_path: Path) -> None:
    def drawn(seed: int) -> list[str]:
        return json.loads(
            typed(
                "prune",
                bert,
                "--random",
                50,
                "--seed",
                seed,
                "--out",
                tmp_path,
                "--force",
                "--json",
            ).out
        )["removed"]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("which", ["lowest", "highest"])
def test_prune_by_a_ranking(which: str, typed: Type, bert: Path, tmp_path: Path) -> None:
    from deadhead.ranking import Ranking

    layout = discover(load(bert))
    Ranking(
        scores={h: float(i) for i, h in enumerate(layout)}, layout=layout, method="by hand"
    ).save(tmp_path / "ranking.json")
    done = typed(
        "prune",
        bert,
        f"--{which}",
        2,
        "--ranking",
        tmp_path / "ranking.json",
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert done.code == 0, done.err
    heads = [str(h) for h in layout]
    assert json.loads(done.out)["removed"] == (heads[:2] if which == "lowest" else heads[-2:])


@pytest.mark.parametrize("heads", [2, 6])
def test_a_ranking_of_another_model_is_refused(
    heads: int, typed: Type, bert: Path, tmp_path: Path
) -> None:
    from deadhead.layout import HeadLayout
    from deadhead.ranking import Ranking

    layout = HeadLayout.grid(encoder=(2, heads))
    Ranking(
        scores={h: float(i) for i, h in enumerate(layout)}, layout=layout, method="by hand"
    ).save(tmp_path / "r.json")
    done = typed(
        "prune", bert, "--lowest", 2, "--ranking", tmp_path / "r.json", "--out", tmp_path / "out"
    )
    assert (done.code, done.out) == (1, "")
    assert (
        f"the ranking is of a model with encoder 2 x {heads}, this one was built with encoder 2 x 4."
        in done.err
    )
    assert not (tmp_path / "out").exists()


def test_a_ranking_serves_the_pruned_model_too(typed: Type, bert: Path, tmp_path: Path) -> None:
    from deadhead.ranking import Ranking

    layout = discover(load(bert))
    Ranking(
        scores={h: float(i) for i, h in enumerate(layout)}, layout=layout, method="by hand"
    ).save(tmp_path / "r.json")
    for model, out in ((bert, tmp_path / "once"), (tmp_path / "once", tmp_path / "twice")):
        assert (
            typed(
                "prune", model, "--lowest", 2, "--ranking", tmp_path / "r.json", "--out", out
            ).code
            == 0
        )
    assert discover(load(tmp_path / "twice")).removed == tuple(layout)[:4]


def test_prune_prints_what_it_did(typed: Type, bert: Path, tmp_path: Path) -> None:
    done = typed("prune", bert, "--heads", "encoder.0.1", "--out", tmp_path, "--form", "padded")
    assert done.out.startswith("1 of 8 heads removed, ")
    assert str(tmp_path) in done.out
    assert len(discover(transformers.AutoModel.from_pretrained(tmp_path))) == 8
    assert len(discover(load(tmp_path))) == 7


def test_prune_fills_with_the_means_of_a_text(typed: Type, bert: Path, tmp_path: Path) -> None:
    text, heads = tmp_path / "text.txt", ("--heads", "encoder.0.1,encoder.1.2")
    text.write_text("hello\nhello hello hello world\n")
    for out, flags in (("plain", ()), ("filled", ("--fill", "mean", "--text", text))):
        done = typed("prune", bert, *heads, *flags, "--out", tmp_path / out)
        assert (done.code, done.err) == (0, "")
    plain, filled = (load(tmp_path / name) for name in ("plain", "filled"))
    assert filled.config.deadhead["filled_output_biases"] == {"encoder": [0, 1]}
    assert "filled_output_biases" not in plain.config.deadhead
    assert plain.config.pad_token_id == filled.config.pad_token_id
    for layer in (0, 1):
        name = f"bert.encoder.layer.{layer}.attention.output.dense.bias"
        gap = (plain.get_parameter(name) - filled.get_parameter(name)).abs().max()
        assert gap > 1e-3


REFUSED = [
    (
        ("--heads", "encoder.0.1", "--fill", "median", "--text", "nowhere.txt"),
        "UnknownName: no fill 'median'.",
    ),
    (("--heads", "encoder.0.1", "--fill", "mean", "--text", "nowhere.txt"), "cannot be read"),
    (
        ("--heads", "encoder.9.9"),
        "HeadError: head encoder.9.9: expected a layer of encoder, got 9.",
    ),
    (
        ("--heads", "encoder.0.1,encoder.0.1"),
        "HeadError: expected each head once, got encoder.0.1 twice.",
    ),
    (("--heads", "encoder.0.1,"), "HeadError: expected a head, got ''."),
    (
        ("--layers", "0-1"),
        "HeadError: expected some heads to remove, got every head of every layer.",
    ),
    (("--lowest", "2"), "HeadError: --lowest needs a ranking."),
    (("--lowest", "2", "--ranking", "nowhere.json"), ""),
    (("--random", "101"), ""),
    (
        ("--random", "50", "--per", "page"),
        "OptionError: `per` of random expects model, block or layer, got 'page'.",
    ),
    (
        ("--heads", "encoder.0.1", "--form", "paded"),
        "UnknownName: no form 'paded'. Did you mean 'padded'?",
    ),
]


@pytest.mark.parametrize(("how", "message"), REFUSED, ids=[" ".join(h) for h, _ in REFUSED])
def test_prune_refuses_with_1_and_writes_nothing(
    how: tuple[str, ...], message: str, typed: Type, bert: Path, tmp_path: Path
) -> None:
    done = typed("prune", bert, *how, "--out", tmp_path / "out")
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert done.err
    assert clean(done)
    assert not (tmp_path / "out").exists()


def test_prune_does_not_split_a_group(typed: Type, llama: Path, tmp_path: Path) -> None:
    done = typed("prune", llama, "--heads", "decoder.0.1", "--out", tmp_path / "out")
    assert done.code == 1
    assert "GroupError" in done.err
    assert "Hint: remove whole groups" in done.err


@pytest.mark.parametrize("claimed", ["float32", "bfloat16", None])
def test_prune_prints_what_it_kept(claimed: str | None, typed: Type, tmp_path: Path) -> None:
    """The precision of the source, and its files; that weights are not what config.json says is one line on standard error."""
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
    done = typed("prune", tmp_path / "model", "--random", 50, "--out", tmp_path / "out")
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert done.err.startswith(
        f"note: config.json of {tmp_path / 'model'} names BertForTokenClassification, but the weights are those of"
    )
    assert "weights in bfloat16, as in the source: " in done.out
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("model", "out")]
    assert (
        sizes[1] < sizes[0]
    )  # whatever config.json says, a model of 16 bits must not grow when heads leave it
    assert "kept from the source: LICENSE\n" in done.out
    words = (
        "prune",
        tmp_path / "model",
        "--random",
        50,
        "--out",
        tmp_path / "other",
        "--dtype",
        "float32",
        "--json",
    )
    facts = json.loads(typed(*words).out)
    assert (facts["dtype"], facts["kept_files"]) == ("float32", ["LICENSE"])
    assert facts["bytes"] == (tmp_path / "other" / "model.safetensors").stat().st_size


# -- bench and export


@pytest.mark.slow
def test_bench(typed: Type, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed("prune", bert, "--random", 50, "--out", tmp_path)
    words = (
        "bench",
        tmp_path,
        "--against",
        bert,
        "--batch",
        "1,2",
        "--length",
        "16",
        "--repeats",
        1,
        "--device",
        "cpu",
    )
    result = json.loads(typed(*words, "--json").out)
    rows = {r["what"]: r for r in result["rows"]}
    assert [r.split()[0] for r in rows] == [
        "heads",
        "parameters",
        "disk",
        "FLOPs",
        "seconds",
        "FLOPs",
        "seconds",
        "peak",
    ]
    assert rows["heads"]["ratio"] == 0.5
    for what in ("parameters", "disk bytes", "FLOPs 1 x 16", "FLOPs 2 x 16"):
        assert 0 < rows[what]["ratio"] < 1, what
        assert rows[what]["ratio"] == rows[what]["model"] / rows[what]["against"]
    assert rows["peak memory bytes 2 x 16"]["model"] > 0
    assert all(len(rows[f"seconds {b} x 16"]["spread"]) == 2 for b in (1, 2))
    monkeypatch.setattr("deadhead.heads.verify.bench.bench", lambda *_, **__: result)
    table = typed(*words).out
    assert "MiB" in table
    assert " ms ± " in table
    assert "their ratio: the median over the rounds." in " ".join(table.split())


@pytest.mark.parametrize(
    ("option", "value"), [("--batch", "0"), ("--length", "4096"), ("--repeats", "0")]
)
def test_bench_refuses(option: str, value: str, typed: Type, bert: Path) -> None:
    done = typed("bench", bert, "--against", bert, option, value)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("DeadheadError")


def test_export(typed: Type, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exporting = importlib.import_module("deadhead.heads.onnx")

    def written(folder: str, *, onnx: Path, **_: object) -> Any:
        onnx.write_bytes(b"graph")
        return exporting.Exported(onnx, ("input_ids", "token_type_ids"), ("logits",), 2e-7, 5)

    monkeypatch.setattr(exporting, "exported", written)
    done = typed("export", bert, "--onnx", tmp_path / "m.onnx", "--json")
    facts = {
        "inputs": ["input_ids", "token_type_ids"],
        "outputs": ["logits"],
        "largest_difference": 2e-7,
    }
    assert json.loads(done.out) == {
        "from": str(bert),
        "onnx": str(tmp_path / "m.onnx"),
        "bytes": 5,
        **facts,
    }
    printed = typed("export", bert, "--onnx", tmp_path / "m.onnx", "--force").out
    assert "takes input_ids, token_type_ids, gives logits" in printed
    assert f"equal to the model in {bert} on 5 batches" in printed


def test_export_without_the_extra(
    typed: Type, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = typed("export", bert, "--onnx", tmp_path / "m.onnx")
    assert (done.code, done.out) == (1, "")
    assert '[onnx]"' in done.err
