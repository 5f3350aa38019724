"""One sub-word vocabulary for both languages, learnt from the training text by byte-pair encoding.

It works on bytes, so that every text can be written with it and comes back as it was. The same texts
in the same order give the same vocabulary, on every machine. What comes out is an ordinary tokenizer
of transformers, which is saved beside the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deadhead.errors import DataError

VOCABULARY = 32_768  # entries, those below among them
PAD, END = "<pad>", "</s>"  # numbers 0 and 1; the decoder begins with the end of a sentence before
LEAST = 300  # 256 bytes, the two above, and a few pieces to learn
OFTEN = 2  # times that two pieces stand side by side before they become one


def vocabulary(texts: Iterable[str], size: int = VOCABULARY) -> Any:
    """A tokenizer with at most `size` entries; fewer where the texts do not hold that many pieces which come twice."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    if size < LEAST:
        raise DataError(
            f"a vocabulary of {size} entries has no room for words beside the 256 bytes.",
            f"ask for {LEAST} or more",
        )
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=True
    )  # the first word is written as it is elsewhere
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=OFTEN, special_tokens=[PAD, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    end = made.token_to_id(END)
    made.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, end)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=END, model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
