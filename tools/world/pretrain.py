"""The two tiny models of the small world: their tokenizer, their shapes, and how they are trained.

The encoder is a BERT; `exercises.py` says what it learns from. The encoder-decoder is a Marian that
translates between any two of the languages. A first token such as `>>de<<` names the target. It
also restores sentences with masked words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from grammar import Fact, Token
from sentences import tokens
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
)

from deadhead.world import LANGUAGES

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(5)
TO = tuple(f">>{lang}<<" for lang in LANGUAGES)
VOCABULARY = 3000
LONGEST = 128
SENTENCES = 6000
BATCH = 64
HEADS, WIDTH = 8, 128


class Sentence(NamedTuple):
    """The pieces of a sentence without special tokens, and the place of each concept in them."""

    ids: list[int]
    concepts: dict[str, tuple[int, int]]


Sentences = list[list[Sentence]]  # by fact, by language
Batches = Iterator[dict[str, Tensor]]


def train_tokenizer(facts: list[Fact]) -> Any:
    """Train a cased WordPiece vocabulary for all languages; ties are broken by chance."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=[*SPECIAL, *TO], show_progress=False
    )
    tokenizer.train_from_iterator(
        (
            " ".join(token.form for token in tokens(lang, fact))
            for fact in facts
            for lang in LANGUAGES
        ),
        trainer,
    )
    return tokenizer


def wrapped(tokenizer: Any, role: str) -> PreTrainedTokenizerFast:
    """Wrap the tokenizer for transformers: `[CLS] a [SEP] b [SEP]`, or `a [SEP]` for seq2seq."""
    from tokenizers import Tokenizer, processors

    own = Tokenizer.from_str(tokenizer.to_str())
    marks = [("[CLS]", CLS), ("[SEP]", SEP)]
    if role == "encoder":
        own.post_processor = processors.TemplateProcessing(
            "[CLS] $A [SEP]", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", marks
        )
        names = ["input_ids", "token_type_ids", "attention_mask"]
    else:
        own.post_processor = processors.TemplateProcessing("$A [SEP]", "$A [SEP] $B [SEP]", marks)
        names = ["input_ids", "attention_mask"]
    marks_of = {
        "unk": "[UNK]",
        "pad": "[PAD]",
        "cls": "[CLS]",
        "sep": "[SEP]",
        "mask": "[MASK]",
        "eos": "[SEP]",
    }
    tokens: dict[str, Any] = {f"{name}_token": mark for name, mark in marks_of.items()}
    wrapper = PreTrainedTokenizerFast(
        tokenizer_object=own, model_max_length=LONGEST, model_input_names=names, **tokens
    )
    wrapper.add_special_tokens({"additional_special_tokens": list(TO)})
    return wrapper


def encoded(tokenizer: Any, facts: list[Fact]) -> Sentences:
    spoken = [tokens(lang, fact) for fact in facts for lang in LANGUAGES]
    encodings = tokenizer.encode_batch(
        [[token.form for token in one] for one in spoken],
        is_pretokenized=True,
        add_special_tokens=False,
    )
    sentences = [_sentence(e, tokens) for e, tokens in zip(encodings, spoken, strict=True)]
    return [sentences[i : i + len(LANGUAGES)] for i in range(0, len(sentences), len(LANGUAGES))]


def _sentence(encoding: Any, tokens: list[Token]) -> Sentence:
    first = {word: at for at, word in reversed(list(enumerate(encoding.word_ids)))}
    ends = [*(first[i] for i in range(1, len(tokens))), len(encoding.ids)]
    places = {
        token.concept: (first[i], ends[i])
        for i, token in reversed(list(enumerate(tokens)))
        if token.concept
    }
    return Sentence(encoding.ids, places)


def new_encoder() -> BertForMaskedLM:
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 5,
        "num_attention_heads": HEADS,
        "intermediate_size": 384,
    }
    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=LONGEST,
            pad_token_id=PAD,
            initializer_range=0.05,
            **shape,
        )
    )


def new_seq2seq() -> MarianMTModel:
    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    shape: dict[str, Any] = {
        "d_model": WIDTH,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        **heads,
    }
    marks: dict[str, Any] = {
        "pad_token_id": PAD,
        "eos_token_id": SEP,
        "decoder_start_token_id": PAD,
        "forced_eos_token_id": None,
    }
    return MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=LONGEST,
            scale_embedding=True,
            init_std=0.05,
            **shape,
            **marks,
        )
    )


def padded(rows: list[list[int]], fill: int = PAD) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def two(dice: Random) -> tuple[int, int]:
    """Two of the languages; English is one of them in about half."""
    one, other = dice.sample(range(len(LANGUAGES)), 2)
    if other and dice.random() < 0.4:
        one = 0
    return (other, one) if dice.random() < 0.5 else (one, other)


def seq2seq_batches(sentences: Sentences, rng: np.random.Generator) -> Batches:
    """Mostly translation; one in eight is a masked sentence of the target language."""
    dice = Random(int(rng.integers(1 << 32)))
    while True:
        inputs, targets = [], []
        for fact in dice.choices(sentences, k=BATCH):
            one, other = two(dice)
            target = fact[other].ids
            source = (
                fact[one].ids
                if dice.random() < 7 / 8
                else [MASK if dice.random() < 0.3 else token for token in target]
            )
            inputs.append([len(SPECIAL) + other, *source, SEP])
            targets.append([*target, SEP])
        ids, labels = padded(inputs), padded(targets, -100)
        yield tensors(input_ids=ids, attention_mask=ids != PAD, labels=labels)


def tensors(**arrays: np.ndarray) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.asarray(array, dtype=np.int64)) for name, array in arrays.items()
    }


def train(
    model: nn.Module,
    batches: Batches,
    *,
    steps: int,
    rate: float,
    device: str,
    report: Callable[[str], None],
) -> list[dict[str, float]]:
    """Train with AdamW, a warm-up and a linear decay to zero; return the losses."""
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warm, (steps - s) / max(1, steps - warm))
    )
    log, start, total, every = (
        list[dict[str, float]](),
        time.perf_counter(),
        torch.zeros((), device=device),
        max(1, steps // 40),
    )
    for step in range(1, steps + 1):
        loss = model(**{name: tensor.to(device) for name, tensor in next(batches).items()}).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.detach()
        if step % every == 0 or step == steps:
            since = step - (int(log[-1]["step"]) if log else 0)
            spent = time.perf_counter() - start
            log.append(
                {"step": step, "loss": round(total.item() / since, 4), "seconds": round(spent, 1)}
            )
            report(
                f"step {step}/{steps}  loss {log[-1]['loss']:.3f}  {spent:.0f} s, "
                f"{spent / step * (steps - step):.0f} s to go"
            )
            total.zero_()
    model.eval()
    return log
