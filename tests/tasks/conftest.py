"""Small tokenizers of the three kinds, trained here, and a folder to cache in."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "training"), str(TESTS / "report")]  # small tasks, studies by hand

settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("untimed")

TEXT = [
    "the quick brown fox jumps over the lazy dog and runs away from it",
    "eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen",
    "人民日报 日本語 テスト 北京",
    "العربية لغة جميلة וגם עברית",
    "pneumonoultramicroscopicsilicovolcanoconiosis, don't stop: 3.14!",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def _wrap(built, typed=False):
    names = (
        ["input_ids", "token_type_ids", "attention_mask"]
        if typed
        else ["input_ids", "attention_mask"]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=names,
    )


def _framed(built, second_type):
    specials = [(name, built.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    pair = f"[CLS]:0 $A:0 [SEP]:0 $B:{second_type} [SEP]:{second_type}"
    built.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair=pair, special_tokens=specials
    )
    return built


def wordpiece():
    built = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    built.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    )
    return _wrap(_framed(built, 1), typed=True)


def bytelevel():
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    built.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        ),
    )
    return _wrap(_framed(built, 0))


def unigram():
    built = Tokenizer(models.Unigram())
    built.normalizer = normalizers.NFKC()
    built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    built.decoder = decoders.Metaspace()
    built.train_from_iterator(
        TEXT,
        trainers.UnigramTrainer(
            vocab_size=300, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
        ),
    )
    return _wrap(_framed(built, 0))


KINDS = {"wordpiece": wordpiece, "bytelevel": bytelevel, "unigram": unigram}


@pytest.fixture(scope="session")
def tokenizers():
    return {name: make() for name, make in KINDS.items()}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
