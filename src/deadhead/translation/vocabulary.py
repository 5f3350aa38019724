"""One sub-word vocabulary for both languages, learnt from the training text by byte-pair encoding.

It works on bytes, so it can write every text and gives it back unchanged. The same texts in the
same order give the same vocabulary on every machine. The result is an ordinary tokenizer of
transformers, which is saved with the model.
"""

from collections.abc import Iterable
from typing import Any

from deadhead.errors import DataError

VOCABULARY = 32_768  # entries, with the two below
PAD, END = "<pad>", "</s>"  # numbers 0 and 1; the decoder begins with END
MIN_SIZE = 300  # 256 bytes, the two above, and a few pieces to learn
MIN_COUNT = 2  # times that two pieces must be neighbours before they become one


def vocabulary(texts: Iterable[str], size: int = VOCABULARY) -> Any:
    """Train a tokenizer of at most `size` entries; fewer if too few pieces occur twice."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    if size < MIN_SIZE:
        message = f"a vocabulary of {size} entries has no room for words beside the 256 bytes."
        raise DataError(message, f"ask for {MIN_SIZE} or more")
    tokenizer = Tokenizer(models.BPE())
    # a blank before the first word too, so that it is cut as it is elsewhere
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=MIN_COUNT,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}",
        pair=f"$A {END} $B {END}",
        special_tokens=[(END, tokenizer.token_to_id(END))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
