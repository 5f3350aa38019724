"""Translation from scratch: the sizes of the Transformer, its model, and one vocabulary for both languages.

    tokenizer = vocabulary(text for row in data.rows for text in row.texts)
    model = build("transformer-base", tokenizer)
    finetune(model, encode(data, tokenizer), preset("weak-link-transformer", "en-de", average=5))

The weak-link paper trains this model, prunes it, and trains what is left. Training and decoding are those
of every other model (`training/`); a study does all of it with the step `pretrain`. What is here
loads no torch before a model is built.
"""

from .model import build
from .sizes import SIZES, Size, size_of
from .vocabulary import VOCABULARY, vocabulary

__all__ = ["SIZES", "VOCABULARY", "Size", "build", "size_of", "vocabulary"]
