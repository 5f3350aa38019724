"""Tiny decoders and a tokenizer for them, which has no pad token."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from deadhead import save

TEXT = (
    "Maria bought a red car .\nThe dog sleeps , and the café is  open .\n\n"
    "北京 is a city ; a house stands there .\n"
)


def tokenizer(bos=False):
    """Byte-level BPE; with `bos` it puts a token before each text, as that of Llama does."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    built.train_from_iterator([TEXT], trainer)
    # trims the blanks of tokens, as that of GPT-2 does
    built.post_processor = processors.ByteLevel(trim_offsets=True)
    if bos:
        built.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=built, bos_token="<s>", eos_token="</s>")


def gpt2(positions=64, vocabulary=300):
    torch.manual_seed(0)
    size = {"n_layer": 2, "n_head": 4, "n_embd": 16, "n_positions": positions}
    options = {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 1}
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(vocab_size=vocabulary, **size, **options, **dropout)
    return GPT2LMHeadModel(config).double().eval()


def llama(positions=64, vocabulary=300):
    torch.manual_seed(0)
    size = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    size |= {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": positions}
    options = {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 1}
    config = LlamaConfig(vocab_size=vocabulary, **size, **options)
    return LlamaForCausalLM(config).double().eval()


def saved(folder, model=None):
    """A folder of a decoder in float32, with its tokenizer; neither has a pad token."""
    model = gpt2() if model is None else model
    assert model.config.pad_token_id is None
    return save(model.float(), folder, tokenizer())
