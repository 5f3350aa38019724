"""A saved model includes the other files of its source, and its card says what happened to it."""

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
import transformers
import yaml
from tokenizers import Tokenizer
from tokenizers import models as token_models

from deadhead.errors import FolderError
from deadhead.heads import load, prune, save
from deadhead.heads.model_files import fetch_modules
from deadhead.world import MODELS
from tiny_models import answers, apart, build_class

FILES = {
    "LICENSE": "All rights kept.",
    "tokenizer_config.json": "{}",
    "vocab.txt": "a\nb\n",
    "modules.json": '[{"path": "1_Pooling"}, {"path": "2_Normalize"}]',
    "config_sentence_transformers.json": "{}",
    "1_Pooling/config.json": '{"pooling_mode_mean_tokens": true}',
    "name with blanks é.txt": "kept",
    "README.md": "---\nlicense: cc-by-4.0\ntags:\n- embeddings\nmodel-index:\n- name: x\n---\n\n"
    "# MiniLM\n\nIt scores 99.\n",
}
NOT_TAKEN = ("pytorch_model.bin", "model.onnx", "onnx/config.json", "optimizer.pt",
             "checkpoint-500/config.json", ".secret", ".cache/x", "tf_model.h5",
             "pytorch_model.bin.index.json", "openvino/model.xml")  # fmt: skip


def put(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def source(tmp_path):
    model = build_class(transformers.BertModel).float()
    model.save_pretrained(tmp_path / "mini lm")
    for name, text in FILES.items():
        put(tmp_path / "mini lm", name, text)
    for name in NOT_TAKEN:
        put(tmp_path / "mini lm", name, '{"weight_map": {}}')
    (tmp_path / "mini lm" / "2_Normalize").mkdir()
    return tmp_path / "mini lm"


LOADER = {"load_pruned.py", "load_pruned.json"}  # of a compact folder


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def words():
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(token_models.WordLevel({"hi": 0}, unk_token="hi"))
    )


@pytest.mark.parametrize("form", ["compact", "padded"])
def test_everything_but_weights_is_taken_along(form, source, tmp_path):
    small = save(prune(load(source), ["encoder.0.1"]), tmp_path / "small", form=form)
    loader = LOADER if form == "compact" else set()
    assert files(small) == {*FILES, "config.json", "model.safetensors", *loader}
    assert (small / "2_Normalize").is_dir()
    for name, text in FILES.items():
        if name != "README.md":
            assert (small / name).read_text(encoding="utf-8") == text


def test_a_copy_inside_of_its_source_takes_along_no_other_copy(source):
    model = prune(load(source), ["encoder.0.1"])
    put(source, "small/notes.txt", "mine")
    for folder in (source / "small", source / "other"):
        save(model, folder)
        assert files(folder) - {"notes.txt"} == {
            *FILES,
            "config.json",
            "model.safetensors",
            *LOADER,
        }
        assert not (folder / folder.name).exists()


def test_also_of_what_transformers_loaded_and_from_another_directory(source, tmp_path, monkeypatch):
    unpruned = transformers.AutoModel.from_pretrained(source)
    assert "modules.json" in files(save(prune(unpruned, ["encoder.0.1"]), tmp_path / "unpruned"))
    monkeypatch.chdir(tmp_path)
    model = load("mini lm")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "modules.json" in files(save(model, "small"))
    assert "_name_or_path" not in json.loads(Path("small/config.json").read_text())


def test_of_a_model_in_the_cache_of_the_hub(source, tmp_path, monkeypatch):
    home, commit = tmp_path / "hub" / "models--someone--minilm", "a" * 40
    (home / "snapshots").mkdir(parents=True)
    source.rename(home / "snapshots" / commit)
    put(home, "refs/main", commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(
        "transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"), raising=False
    )
    small = save(prune(load("someone/minilm"), ["encoder.0.1"]), tmp_path / "small")
    assert {"LICENSE", "modules.json", "1_Pooling/config.json", "vocab.txt"} <= files(small)
    card = (small / "README.md").read_text()
    assert "Made from `someone/minilm` with deadhead by removing 1 attention heads" in card
    assert yaml.safe_load(card.split("---")[1])["base_model"] == "someone/minilm"


def test_a_tokenizer_that_is_given_replaces_that_of_the_source(source, tmp_path):
    small = save(load(source), tmp_path / "small", words())
    assert "hi" in (small / "tokenizer.json").read_text()
    assert not (small / "vocab.txt").exists()
    assert (small / "LICENSE").exists()


def test_the_card(source, tmp_path):
    card = (
        save(prune(load(source), ["encoder.0.1", "encoder.1.3"]), tmp_path / "small") / "README.md"
    )
    text = card.read_text()
    front = yaml.safe_load(text.split("---")[1])
    assert front == {
        "library_name": "transformers",
        "license": "cc-by-4.0",
        "tags": ["embeddings", "deadhead", "pruned"],
    }
    assert "Made from `mini lm` with deadhead by removing 2 attention heads" in text
    assert "| encoder | 1 | 3 | 3 of 4 |" in text
    assert "It scores 99." not in text
    again = (
        save(prune(load(tmp_path / "small"), ["encoder.0.0"]), tmp_path / "smaller") / "README.md"
    ).read_text()
    assert "removing 3 attention heads" in again
    assert again.count("license: cc-by-4.0") == 1
    assert str(tmp_path) not in text + again


@pytest.mark.parametrize(
    "card",
    [
        "---\n: [broken\n---\n\n# Mine\n",
        "# Mine\n",
        "---\n- a list\n---\n# Mine\n",
        "---\nlicense: mit\n",
    ],
)
def test_an_odd_card_of_the_source(card, source, tmp_path):
    put(source, "README.md", card)
    text = (save(load(source), tmp_path / "out") / "README.md").read_text()
    assert yaml.safe_load(text.split("---")[1])["tags"] == ["deadhead"]


def test_saving_into_the_source_keeps_what_is_there(source):
    before = files(source)
    model = prune(load(source), ["encoder.0.1"])
    save(model, source)
    assert files(source) == before | LOADER
    assert "It scores 99." in (source / "README.md").read_text()
    assert apart(answers(load(source).eval()), answers(model)) == 0


def test_the_card_of_a_whole_model_says_how_it_loads_and_what_happened(tmp_path):
    save(
        load(MODELS / "encoder"), tmp_path / "whole", note="Fine-tuned with deadhead on pos in en."
    )
    text = (tmp_path / "whole" / "README.md").read_text()
    assert "refuses these shapes" not in text
    assert "Loads with plain `from_pretrained`" in text
    assert "Fine-tuned with deadhead on pos in en." in text
    save(prune(load(MODELS / "encoder"), ["encoder.0.1"]), tmp_path / "pruned")
    assert "refuses these shapes" in (tmp_path / "pruned" / "README.md").read_text()  # the twin


def test_modules_of_a_hub_model_are_downloaded(source, monkeypatch):
    """Loading alone would leave them, and the weights of a dense layer, on the hub."""
    calls = []
    monkeypatch.setattr(
        "transformers.utils.cached_file",
        lambda name, file, **_: source / file if name == "someone/minilm" else None,
    )
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda *name, **options: calls.append((name, options))
    )
    fetch_modules("someone/minilm@main")
    fetch_modules("someone/other")
    fetch_modules(source)
    ((name, options),) = calls
    assert (name, options["revision"]) == (("someone/minilm",), "main")
    matched = [
        file
        for file in (*FILES, "1_Pooling/model.safetensors", "model.safetensors")
        if any(fnmatch(file, pattern) for pattern in options["allow_patterns"])
    ]
    assert matched == [
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "1_Pooling/model.safetensors",
    ]


def test_a_hub_out_of_reach_is_an_error_at_once(monkeypatch, tmp_path):
    requests = []

    class Session:
        def head(self, address, timeout):
            requests.append(address)
            raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.get_session", Session)
    # what asks the hub and waits
    monkeypatch.setattr("transformers.utils.cached_file", lambda *_, local_files_only, **__: None)
    for read in (load, fetch_modules):
        with pytest.raises(FolderError, match="cannot be reached: no network"):
            read("no/such-model")
    assert len(requests) == 2
    save(load(MODELS / "encoder"), tmp_path / "here")
    fetch_modules(tmp_path / "here")
    assert len(requests) == 2
