"""A tokenizer of each kind, trained on English and German sentences, as transformers reads it."""

import json
import tempfile
from functools import cache

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from deadhead.tasks import load_data

SIZE = 500


@cache
def sentences(language):
    rows = load_data("pos", language, "train", root="world").rows[:300]
    return tuple(dict.fromkeys(" ".join(row.texts) for row in rows))


TEXTS = (*sentences("en"), *sentences("de"))


def _as(name):
    return lambda: getattr(transformers, name)().train_new_from_iterator(
        TEXTS, SIZE, show_progress=False
    )


def _trained(model, trainer, **options):
    """The vocabulary of a tokenizer that writes blanks as SentencePiece does."""
    built = Tokenizer(model)
    built.pre_tokenizer = pre_tokenizers.Metaspace()
    built.train_from_iterator(TEXTS, trainer(vocab_size=SIZE, show_progress=False, **options))
    return json.loads(built.to_str())["model"]["vocab"]


def _unigram(name, special, last=()):
    options = {"special_tokens": special, "unk_token": "<unk>"}
    vocabulary = _trained(models.Unigram(), trainers.UnigramTrainer, **options)
    return getattr(transformers, name)(vocab=[*map(tuple, vocabulary), *last])


def _llama():
    """With bytes for unknown characters, and every merge that the vocabulary allows."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    options = {"special_tokens": special, "limit_alphabet": 60}
    ids = _trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, **options)
    words = [word for word in ids if word not in special]
    pairs = [(w[:n], w[n:]) for w in words for n in range(1, len(w))]
    merges = [pair for pair in pairs if {*pair} <= ids.keys()]
    merges.sort(key=lambda pair: (ids["".join(pair)], ids[pair[0]]))
    return transformers.LlamaTokenizer(vocab=ids, merges=merges)


MAKERS = {
    "wordpiece": _as("BertTokenizer"),
    "roberta": _as("RobertaTokenizer"),
    "gpt2": _as("GPT2Tokenizer"),
    "qwen2": _as("Qwen2Tokenizer"),
    "llama": _llama,
    "t5": lambda: _unigram("T5Tokenizer", ["<pad>", "</s>", "<unk>"]),
    "xlm-roberta": lambda: _unigram(
        "XLMRobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>"], [("<mask>", 0.0)]
    ),
}


@cache
def trained(kind):
    with tempfile.TemporaryDirectory() as folder:
        MAKERS[kind]().save_pretrained(folder)
        return transformers.AutoTokenizer.from_pretrained(folder)
