"""Small models of question answering, with random weights."""

import torch
import transformers

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 30}
BERT_SIZES = {**SIZES, "intermediate_size": 24, "initializer_range": 0.5}
CONFIGS = {
    "bert": transformers.BertConfig(**BERT_SIZES),
    "roberta": transformers.RobertaConfig(**BERT_SIZES),
    "electra": transformers.ElectraConfig(**BERT_SIZES, embedding_size=16),
    "distilbert": transformers.DistilBertConfig(
        dim=16, n_layers=2, n_heads=4, hidden_dim=24, vocab_size=30, initializer_range=0.5
    ),
    "gpt2": transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=4, vocab_size=30, initializer_range=0.5
    ),
    "bart": transformers.BartConfig(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, vocab_size=30,
        init_std=0.5,
    ),
}  # fmt: skip


def reader(family):
    torch.manual_seed(0)
    model = transformers.AutoModelForQuestionAnswering.from_config(CONFIGS[family])
    return model.double().eval()
