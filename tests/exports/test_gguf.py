"""GGUF files hold the model: every structure, however its heads and neurons were removed."""

import json
import resource
import sys

import pytest
import torch
from gguf_by_hand import File, logits

from deadhead.errors import DataError, DeadheadError, FolderError, MissingExtra, UnknownName
from deadhead.exports import export
from deadhead.exports.gguf import runtime
from deadhead.exports.gguf.decoder import logits as computed
from deadhead.exports.gguf.decoder import read
from deadhead.exports.gguf.export import exported
from deadhead.exports.gguf.file import as_stored, write
from deadhead.exports.gguf.plan import plan
from deadhead.heads import load, prune, save
from deadhead.heads.depth import remove_layers
from deadhead.version import install_command
from gguf_models import CHANGES, FAMILIES, MORE, build, byte_tokenizer

IDS = [(11 * n) % 290 + 3 for n in range(25)]


@pytest.fixture
def _no_runtime(monkeypatch):
    monkeypatch.setattr(runtime, "is_installed", lambda: False)


def saved(tmp_path, family, change="whole"):
    save(build(family, change), tmp_path / "model", byte_tokenizer())
    return tmp_path / "model"


@torch.no_grad()
def answer(model):
    return model(input_ids=torch.tensor([IDS])).logits[0].double().numpy()


def written(model, path, type="f32"):
    """The file of a model in memory, without a tokenizer."""
    contents = plan(read(model), quantised=type in ("q8_0", "q4_0"))
    write(path, contents, contents.metadata(), type)
    return File(path)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_file_holds_the_model(family, change, tmp_path):
    model = build(family, change)
    file, expected = written(model, tmp_path / "m.gguf"), answer(model)
    architecture = {"qwen3-tied": "openelm", "qwen3": "step35"}.get(family, "deci")
    filled = change == "mean-fill" and architecture != "deci"
    assert file.architecture == ("laguna" if filled else architecture)
    assert abs(logits(file, IDS) - expected).max() < 1e-3 * abs(expected).max()
    if change != "whole":
        assert abs(answer(build(family)) - expected).max() > 0.1 * abs(expected).max()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_fewer_layers(family, tmp_path):
    file = written(model := remove_layers(build(family), [1]), tmp_path / "m.gguf")
    expected = answer(model)
    padding = file.architecture == "step35"  # a layer that it needs
    assert file.values["block_count"] == 2 + padding
    assert abs(logits(file, IDS) - expected).max() < 1e-3 * abs(expected).max()
    assert abs(answer(build(family)) - expected).max() > 0.1 * abs(expected).max()


@pytest.mark.parametrize("family", MORE)
def test_biases_and_scaled_positions(family, tmp_path):
    model = build(family, "uneven")
    file, expected = written(model, tmp_path / "m.gguf"), answer(model)
    assert abs(logits(file, IDS) - expected).max() < 1e-3 * abs(expected).max()
    assert ("rope_freqs.weight" in file.tensors) == (family in ("yarn", "linear", "qwen3-yarn"))


@pytest.mark.usefixtures("_no_runtime")
def test_types(tmp_path):
    """Vectors stay in full; neurons are filled up to whole blocks of q8_0."""
    folder = saved(tmp_path, "llama", "neurons")
    expected, sizes = answer(build("llama", "neurons")), {}
    types = (("f32", "F32", 1e-5), ("f16", "F16", 1e-2), ("q8_0", "Q8_0", 0.3), ("q4_0", "Q4_0", 1))
    for type, kind, limit in types:
        path = export(folder, gguf=tmp_path / f"{type}.gguf", type=type)
        file = File(path)
        assert {file.kinds[n] for n in file.kinds if n.endswith("ffn_down.weight")} == {kind}
        assert {file.kinds[n] for n in file.kinds if n.endswith("norm.weight")} == {"F32"}
        assert abs(logits(file, IDS) - expected).max() < limit * abs(expected).max()
        assert file.values["feed_forward_length"] == (
            [64, 32, 32] if kind.startswith("Q") else [41, 1, 18]
        )
        sizes[type] = path.stat().st_size
    assert file.kinds["token_embd.weight"] == file.kinds["output.weight"] == "Q8_0"
    assert sizes["q4_0"] < sizes["q8_0"] < sizes["f16"] < sizes["f32"]


@pytest.mark.parametrize("type", ["q8_0", "q4_0"])
@pytest.mark.parametrize(
    ("family", "change"),
    [("llama", "neurons"), ("qwen2", "first-empty"), ("qwen3-tied", "uneven"), ("qwen3", "whole")],
)
def test_rounded_as_in_the_file(family, change, type, tmp_path):
    """What an exported file is compared with: the numbers that it holds."""
    model = build(family, change)
    file = written(model, tmp_path / "m.gguf", type)
    exact, answer = read(model), logits(file, IDS)
    stored = computed(as_stored(exact, type), torch.tensor(IDS)).double().numpy()
    assert abs(answer - stored).max() < 1e-4 * abs(stored).max()
    assert abs(answer - computed(exact, torch.tensor(IDS)).numpy()).max() > 1e-2 * abs(stored).max()


@pytest.mark.usefixtures("_no_runtime")
def test_rows_that_are_no_whole_blocks_are_f16(tmp_path):
    model = prune(build("llama"), ["decoder.0.0", "decoder.0.1", "decoder.0.3"])  # 16 numbers left
    folder = save(model, tmp_path / "model", byte_tokenizer())
    kinds = [*File(export(folder, gguf=tmp_path / "m.gguf", type="q8_0")).kinds.values()]
    assert (kinds.count("F16"), kinds.count("Q8_0")) == (1, 22)


@pytest.mark.usefixtures("_no_runtime")
def test_the_file_is_for_llama_cpp_alone(tmp_path):
    file = export(saved(tmp_path, "llama"), gguf=tmp_path / "m.gguf")
    with pytest.raises(FolderError, match=r"expected a folder, got the file .*m\.gguf"):
        load(file)


@pytest.mark.usefixtures("_no_runtime")
def test_the_metadata(tmp_path):
    """Heads per layer, special tokens, chat template; unused rows of the embeddings get a name."""
    folder = saved(tmp_path, "llama", "uneven")
    values = File(export(folder, gguf=tmp_path / "m.gguf")).values
    assert values["attention.head_count"] == [2, 4, 2]
    assert values["attention.head_count_kv"] == [2, 2, 1]
    assert (values["context_length"], values["vocab_size"]) == (256, 320)
    tokens = byte_tokenizer().convert_ids_to_tokens(range(300))
    assert values["tokenizer.ggml.tokens"] == [*tokens, *(f"[UNUSED{n}]" for n in range(300, 320))]
    kinds = values["tokenizer.ggml.token_type"]
    assert (set(kinds[:3]), set(kinds[3:300]), set(kinds[300:])) == ({3}, {1}, {5})
    assert (values["tokenizer.ggml.pre"], values["tokenizer.ggml.model"]) == ("gpt-2", "gpt2")
    ids = [values[f"tokenizer.ggml.{name}_token_id"] for name in ("unknown", "bos", "eos")]
    assert ids == [0, 1, 2]
    assert not values["tokenizer.ggml.add_bos_token"]
    assert values["tokenizer.chat_template"] == byte_tokenizer().chat_template


@pytest.mark.usefixtures("_no_runtime")
def test_a_folder_of_transformers_4(tmp_path):
    """Whatever record of removed heads `load` reads, the file has the heads that are left."""
    folder = saved(tmp_path, "llama", "uneven")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["pruned_heads"] = config.pop("deadhead")["removed"]["decoder"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    file = File(export(folder, gguf=tmp_path / "m.gguf", type="f32"))
    expected = answer(build("llama", "uneven"))
    assert abs(logits(file, IDS) - expected).max() < 1e-3 * abs(expected).max()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), (b"", "empty file"), (b"12345678", "magic invalid")],
)
def test_a_tokenizer_from_no_gguf_file(content, reason, tmp_path):
    file = tmp_path / "m.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=rf"expects a GGUF file, got .*m.gguf: .*{reason}\.") as got:
        exported(tmp_path, gguf=tmp_path / "new.gguf", tokenizer_from=file)
    assert got.value.hint == "name a GGUF file that exists and is complete"


def test_a_type_that_does_not_exist(tmp_path):
    with pytest.raises(UnknownName, match=r"no GGUF type 'q8'. Did you mean 'q8_0'\?"):
        export(tmp_path, gguf=tmp_path / "m.gguf", type="q8")


@pytest.mark.usefixtures("_no_runtime")
def test_a_place_that_cannot_be_written(tmp_path):
    folder = saved(tmp_path, "llama")
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FolderError, match="cannot be written"):
        export(folder, gguf=tmp_path / "taken" / "m.gguf")


@pytest.mark.usefixtures("_no_runtime")
def test_a_full_disk_leaves_nothing(tmp_path):
    """Files of this process may have 100 kB for a moment, and the file needs more."""
    folder, target = saved(tmp_path, "llama"), tmp_path / "out" / "m.gguf"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(FolderError, match="cannot be written: the disk took only a part"):
            export(folder, gguf=target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(target.parent.iterdir()) == []
    assert export(folder, gguf=target).stat().st_size > 100_000


def test_a_file_that_answers_differently_is_not_kept(tmp_path, monkeypatch):
    def ask(file, prompts, texts):
        assert file.exists()
        steps = [{"token": 5, "likeliest": [(5, -20.0), (6, -1.0)]}]
        return {"answers": [steps] * len(prompts), "tokens": []}

    monkeypatch.setattr(runtime, "is_installed", lambda: True)
    monkeypatch.setattr(runtime, "ask", ask)
    folder = saved(tmp_path, "llama")
    with pytest.raises(DeadheadError, match="answers differently"):
        exported(folder, gguf=tmp_path / "out" / "m.gguf")
    assert list((tmp_path / "out").iterdir()) == []


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra) as problem:
        export(tmp_path, gguf=tmp_path / "m.gguf")
    assert problem.value.hint == install_command("gguf")
