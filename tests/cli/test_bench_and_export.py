"""The commands `bench` and `export`: what they print, what they refuse."""

import importlib
import json
import re
import sys

import pytest


def test_bench(run_command, bert, tmp_path, monkeypatch):
    run_command("prune", bert, "--remove-random", 50, "--out", tmp_path)
    words = ("bench", tmp_path, "--against", bert, "--batch-sizes", "1,2", "--lengths", "16")
    words += ("--repeats", 1, "--device", "cpu")

    def peak(name, *_):  # the process itself is tested in tests/saved/test_bench
        return 2**20 * (300 if name == str(tmp_path) else 400)

    monkeypatch.setattr("deadhead.saved.bench._peak_of_process", peak)
    result = json.loads(run_command(*words, "--json").out)
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
    assert rows["peak memory bytes 2 x 16"]["ratio"] == 0.75
    assert all(len(rows[f"seconds {b} x 16"]["spread"]) == 2 for b in (1, 2))
    monkeypatch.setattr("deadhead.saved.bench.bench", lambda *_, **__: result)
    table = run_command(*words).out
    assert re.search(r"disk +│ [\d.]+ KB", table)
    assert re.search(r"time 1 x 16 +│ [\d.]+ ms ± ", table)
    assert re.search(r"peak memory 2 x 16 +│ 315 MB +│ 419 MB", table)
    assert "their ratio: the median over the rounds." in " ".join(table.split())


@pytest.mark.parametrize(
    ("option", "value"), [("--batch-sizes", "0"), ("--lengths", "4096"), ("--repeats", "0")]
)
def test_bench_refuses(option, value, run_command, bert):
    done = run_command("bench", bert, "--against", bert, option, value)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("DeadheadError")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Missing option '--against'"),
        (("--against", "x", "--runtimes", "onnx"), "No such option: --runtimes"),
    ],
)
def test_options_of_bench(words, message, run_command, bert):
    done = run_command("bench", bert, *words)
    assert done.code == 2
    assert message in done.message


def test_export(run_command, bert, tmp_path, monkeypatch):
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    names = dict.fromkeys(["input_ids", "token_type_ids"])
    graph = exporting.Graph("m.onnx", None, names, {}, ("logits",))

    def written(folder, *, onnx, int8, **_):
        onnx.write_bytes(b"graph")
        return exporting.Exported(onnx, (graph,), 2e-7, 5, 0.03 if int8 else None)

    monkeypatch.setattr(exporting, "exported", written)
    done = run_command("export", bert, "--onnx", tmp_path / "m.onnx", "--json")
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
    printed = run_command("export", bert, "--onnx", tmp_path / "m.onnx", "--force").out
    assert "m.onnx takes input_ids, token_type_ids, gives logits" in printed
    assert f"equal to the model in {bert} on 5 batches" in printed
    words = ("export", bert, "--onnx", tmp_path / "m.onnx", "--int8", "--force")
    assert "weights in int8: largest difference 3e-02" in run_command(*words).out
    assert json.loads(run_command(*words, "--json").out)["largest_difference_int8"] == 0.03


def test_export_of_a_folder(run_command, bert, tmp_path, monkeypatch):
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    names = [f"past_key_values.{layer}.{kind}" for layer in (0, 2) for kind in ("key", "value")]
    graph = exporting.Graph(
        "model.onnx", None, dict.fromkeys(["input_ids", *names]), {}, ("logits",)
    )

    def written(folder, *, onnx, **_):
        onnx.mkdir(exist_ok=True)
        (onnx / "model.onnx").write_bytes(b"graph")
        (onnx / "config.json").write_bytes(b"{}")
        return exporting.Exported(onnx, (graph,), 2e-7, 2)

    monkeypatch.setattr(exporting, "exported", written)
    printed = run_command("export", bert, "--onnx", tmp_path / "small").out
    inputs = "input_ids, past_key_values.N.key, past_key_values.N.value"
    assert f"model.onnx takes {inputs}, gives logits" in printed
    again = run_command("export", bert, "--onnx", tmp_path / "small")
    assert (again.code, again.out) == (1, "")
    assert "the folder is not empty" in again.err
    done = run_command("export", bert, "--onnx", tmp_path / "small", "--force", "--json")
    facts = json.loads(done.out)
    assert facts["bytes"] == 5
    assert facts["graphs"]["model.onnx"]["inputs"] == ["input_ids", *names]


def test_export_without_the_extra(run_command, bert, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = run_command("export", bert, "--onnx", tmp_path / "m.onnx")
    assert (done.code, done.out) == (1, "")
    assert '[onnx]"' in done.err


@pytest.mark.parametrize("is_installed", [True, False])
def test_export_as_gguf(is_installed, run_command, bert, tmp_path, monkeypatch):
    exporting = importlib.import_module("deadhead.exports.gguf.export")
    comparison = exporting.runtime.Comparison(3, 2, 4e-5, 3e-6, 48) if is_installed else None

    def written(folder, *, gguf, **options):
        gguf.write_bytes(b"GGUF")
        return exporting.Exported(gguf, "deci", comparison)

    monkeypatch.setattr(exporting, "exported", written)
    file = tmp_path / "m.gguf"
    printed = run_command("export", bert, "--gguf", file, "--type", "q8_0").out
    assert "q8_0, architecture deci" in printed
    if is_installed:
        text = (
            "the same greedy tokens after 2 of 3 prompts, log-probabilities differ by at most 4e-05"
        )
        assert text in printed
    else:
        assert "not checked: llama.cpp is not installed." in printed
    facts = json.loads(run_command("export", bert, "--gguf", file, "--force", "--json").out)
    assert (facts["bytes"], facts["checked"]) == (4, is_installed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gguf", "m.gguf", "--onnx", "m.onnx"), "either --onnx PATH or --gguf FILE"),
        (("--onnx", "m.onnx", "--type", "f16"), "--type is for a GGUF file"),
        (("--onnx", "m.onnx", "--tokenizer-from", "o.gguf"), "--tokenizer-from is for a GGUF"),
        (("--gguf", "m.gguf", "--int8"), "--int8 is for ONNX"),
    ],
)
def test_options_of_two_formats(words, message, run_command, bert):
    done = run_command("export", bert, *words)
    assert done.code == 2
    assert message in done.message
