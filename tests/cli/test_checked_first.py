"""All arguments are checked before the weights of any model are read."""

import pytest
import transformers
from command_line import clean
from tokenizers import Tokenizer
from tokenizers import models as token_models

import tiny_decoders
from architectures.tiny import tiny
from deadhead.heads import load, save
from deadhead.tasks import load_data
from deadhead.world import MODELS

POS = ("--task", "pos", "--lang", "en", "--data", "world")
HALF = ("--remove-heads", "50%")
TEXT = ("--text", "text.txt", "--loss", "self")
LONG = ("--task", "lm", "--data", "text.txt", "--max-length", "99")
TOO_LONG = "windows of 99 positions and the model has 64"
ENCODER, ENCODER_FOLDER = "world/encoder", MODELS / "encoder"
READ_ONLY = ("evaluate", "bench", "export")
AUTO = transformers.AutoModelForTokenClassification
NO_ATTENTION = "has no attention"
WRONG: list[tuple[tuple[str, ...], str]] = [
    (("shrink", ENCODER, *POS, *HALF, "--method", "no"), "no method of choosing 'no'"),
    (("shrink", ENCODER, *POS, *HALF, "--repair", "no"), "no repair 'no'"),
    (("shrink", ENCODER, *POS, *HALF, "--form", "no"), "no form 'no'"),
    (("shrink", ENCODER, *POS, *HALF, "--dtype", "no"), "no dtype for the weights"),
    (("shrink", ENCODER, *POS, *HALF, "--auto-class", "no"), "no auto class for models 'no'"),
    (("shrink", ENCODER, *POS, *HALF, "--on", "4x4096"), "expects at most the 128 positions"),
    (
        ("shrink", ENCODER, *POS, "--remove-heads", "9999"),
        "`heads` expects at most 39 heads, got 9,999",
    ),
    (("shrink", ENCODER, *POS, *HALF), "BertForMaskedLM does not fit pos"),
    (("shrink", "mamba", *TEXT, *HALF), NO_ATTENTION),
    (("rank", ENCODER, *POS, "--method", "no"), "no ranking method 'no'"),
    (
        ("rank", ENCODER, *POS, "--method", "shapley", "--gradient-checkpointing"),
        "has no checkpointing",
    ),
    (("rank", ENCODER, *POS, "--dtype", "no"), "no dtype for the weights"),
    (("rank", ENCODER, *POS), "BertForMaskedLM does not fit pos"),
    (("rank", "mamba", *TEXT), NO_ATTENTION),
    (("prune", ENCODER, "--remove-heads", "encoder.0.99"), "expected one of the 8 heads"),
    (("prune", ENCODER, "--remove-heads", "encoder.0.1", "--form", "no"), "no form 'no'"),
    (("prune", ENCODER, "--remove-random", "10", "--per", "no"), "`per` of random expects model"),
    (
        ("prune", ENCODER, "--remove-heads", "encoder.0.1", "--dtype", "no"),
        "no dtype for the weights",
    ),
    (("evaluate", "tagger", "nomodel", *POS), "expected a model that can be loaded, got nomodel"),
    (("evaluate", "tagger", ENCODER, *POS), "BertForMaskedLM does not fit pos"),
    (("bench", "tagger", "--against", "nomodel"), "got nomodel"),
    (("bench", "tagger", "--against", ENCODER, "--lengths", "9,999"), "at most the 128 positions"),
    (("export", "vit", "--onnx", "m.onnx"), "expected a model that reads text (input_ids)"),
    (("export", "mamba", "--gguf", "m.gguf", "--tokenizer-from", "no.gguf"), "got no.gguf"),
    (("shrink", "decoder", *LONG, *HALF), TOO_LONG),
    (("rank", "decoder", *LONG), TOO_LONG),
    (("evaluate", "decoder", *LONG), TOO_LONG),
    (("finetune", "decoder", *LONG), TOO_LONG),
    (("finetune", "no-words", *POS), "the tokenizer of no-words has only"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text("Maria bought a red car .\n", encoding="utf-8")
    tiny_decoders.saved(folder / "decoder")
    for name in ("mamba", "vit"):
        tiny(name).save_pretrained(folder / name)
    labels = load_data("pos", "en", "dev", root="world").labels
    tagger = load(ENCODER_FOLDER, auto=AUTO, id2label=dict(enumerate(labels)))
    save(tagger, folder / "tagger", transformers.AutoTokenizer.from_pretrained(ENCODER_FOLDER))
    words = Tokenizer(token_models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    save(tagger, folder / "no-words", tokenizer)
    return folder


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(w) for w, _ in WRONG])
def test_a_mistake_costs_no_time_to_read_weights(
    words, message, models, tmp_path, run_command, monkeypatch
):
    def too_late(*_, **__):
        raise AssertionError("weights were read before all arguments were checked")

    monkeypatch.chdir(models)
    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", too_late)
    out = ("--out", tmp_path / "out") if words[0] not in READ_ONLY else ()
    done = run_command(*words, *out)
    assert done.code == 1
    assert message in " ".join(done.err.split())
    assert clean(done)
    assert not (tmp_path / "out").exists()
