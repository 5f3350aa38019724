"""A tokenizer of whole words that makes pairs as BERT's does."""

import transformers
from tokenizers import Tokenizer, models
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import BertProcessing

WORDS = "the a parcel was sent got lost rivers rise in april er liest niemand"


def word_tokenizer():
    """[CLS] a [SEP] b [SEP], where the second text is of type 1."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS.split()]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{word}_token": f"[{word.upper()}]" for word in ("pad", "unk", "cls", "sep")},
    )
