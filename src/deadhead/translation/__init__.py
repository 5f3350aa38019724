"""Translation from scratch: the Transformer in several sizes, and one vocabulary for a pair.

    tokenizer = vocabulary(text for row in data.rows for text in row.texts)
    model = build("transformer-base", tokenizer)
    finetune(model, encode(data, tokenizer), preset("weak-link-transformer", "en-de", average=5))

The weak-link paper trains this model, prunes it, and trains it again. Training and decoding are
those of every other model (`training/`); in a study, the step `pretrain` does all of it. Nothing
here loads torch before a model is built.
"""

from .model import SIZES, Size, build, size_of
from .vocabulary import VOCABULARY, vocabulary

__all__ = ["SIZES", "VOCABULARY", "Size", "build", "size_of", "vocabulary"]
