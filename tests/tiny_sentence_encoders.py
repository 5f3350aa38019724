"""A tiny sentence encoder in a folder, as SentenceTransformer saves it."""

import sentence_transformers
import transformers

from deadhead.heads import save
from deadhead.world import MODELS
from tiny_models import build_class

MODULES = sentence_transformers.sentence_transformer.modules
TEXTS = [
    "Maria bought a red car .",
    "The dog sleeps .",
    "A house stands there .",
    "The old man reads a book in the garden .",
    "She sings .",
    "The car is red .",
    "A dog and a cat sleep in the house .",
    "He bought the book .",
]


def bare_encoder(folder):
    """The transformer alone, with a tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    size = {"vocab_size": len(tokenizer), "pad_token_id": 0}
    return save(build_class(transformers.BertModel, **size).float(), folder, tokenizer)


def sentence_encoder(folder, mode="mean", *others, bare=None):
    """With this pooling, and these modules behind it."""
    transformer = MODULES.Transformer(str(bare or bare_encoder(folder.parent / "bare")))
    pooling = MODULES.Pooling(transformer.get_embedding_dimension(), mode)
    parts = [transformer, pooling, *others]
    encoder = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    encoder.save(str(folder))
    return folder


def open_encoder(folder, **options):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu", **options)
