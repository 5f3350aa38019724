"""Tiny data and models of the three kinds, the same in every process."""

import random

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
)

from deadhead.tasks import Row, Task, dataset, encode

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs", "away"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TAGGING = Task(
    name="small",
    kind="tag",
    metrics=("accuracy", "macro_f1"),
    languages=("en",),
    labels=("A", "B", "C"),
)
CLASSIFYING = Task(
    name="small",
    kind="classify",
    metrics=("accuracy", "macro_f1"),
    languages=("en",),
    labels=("no", "yes", "maybe"),
)
TRANSLATING = Task(name="small", kind="translate", metrics=("bleu",), languages=("en-en",))


def tokenizer():
    built = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate([*SPECIAL, *WORDS])}, "[UNK]")
    )
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    built.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
        model_input_names=names,
    )


def sentences(n, seed):
    draw = random.Random(seed)
    return [[draw.choice(WORDS) for _ in range(draw.randint(2, 14))] for _ in range(n)]


def classify(cache, n=40, seed=0, **options):
    """Is there a fox?"""
    rows = [
        Row((" ".join(words),), ("yes" if "fox" in words else "no",))
        for words in sentences(n, seed)
    ]
    return encode(dataset(CLASSIFYING, "en", "train", rows), tokenizer(), cache=cache, **options)


def tag(cache, n=40, seed=0, **options):
    """The tag of a word depends on its first letter."""
    rows = [
        Row(tuple(words), tuple("ABC"[ord(w[0]) % 3] for w in words))
        for words in sentences(n, seed)
    ]
    return encode(dataset(TAGGING, "en", "train", rows), tokenizer(), cache=cache, **options)


def translate(cache, n=40, seed=0):
    """The translation of a sentence is its first words."""
    rows = [Row((" ".join(words), " ".join(words[:5]))) for words in sentences(n, seed)]
    return encode(dataset(TRANSLATING, "en-en", "train", rows), tokenizer(), cache=cache)


def bert(kind=BertForSequenceClassification, dropout=0.1, attention_dropout=None, labels=3, **more):
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=16,
        num_labels=labels,
        initializer_range=0.2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout if attention_dropout is None else attention_dropout,
        max_position_embeddings=32,
        **more,
    )
    return kind(config)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def tagger(**options):
    return bert(BertForTokenClassification, **options)


def marian(dropout=0.0):
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=16,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=96,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
        forced_eos_token_id=3,
        dropout=dropout,
        init_std=0.2,
        num_beams=1,
        scale_embedding=True,
    )
    return MarianMTModel(config)
