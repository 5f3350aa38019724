"""The names that models use for the parts of their attention and feed-forward layers: add yours.

Heads are found by structure, so most architectures need nothing here. If `deadhead heads MODEL`
refuses yours, one of its parts has a new name. Widths and counts come from the weights.
"""

import re

# fmt: off
# Projections for queries, keys and values: three modules, or one fused from them.
TRIPLES: tuple[tuple[str, str, str], ...] = (
    ("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"), ("query_proj", "key_proj", "value_proj"), ("to_q", "to_k", "to_v"),
    ("linear_q", "linear_k", "linear_v"), ("Wq", "Wk", "Wv"), ("q_head", "k_head", "v_head"),
    ("project_q", "project_k", "project_v"),
)
# Latent attention (DeepSeek and its followers) expands the keys and values of all heads, head by
# head, from a few numbers for each token, and often the queries too.
LATENT_KEYS = "kv_b_proj"
LATENT_QUERIES = ("q_b_proj", "q_gate_proj", "q_proj")
# Attributes of layers that read the keys and values of another layer, and of the one they read.
READS_KEYS, LENDS_KEYS = "is_kv_shared_layer", "store_full_length_kv"
READ_VALUES = ("dt_proj",)  # parts that read the values of all heads at once
FUSED = ("query_key_value", "qkv_proj", "Wqkv", "c_attn", "in_proj", "qkv", "att_proj")
# Families that fuse q, k and v head by head; all others put all queries before all keys and values.
INTERLEAVED = (
    "bloom", "gpt_neox", "gpt_neox_japanese", "falcon", "deberta", "persimmon", "gpt_bigcode",
)

# The output projection, beside the queries or in the module above.
OUTPUTS = (
    "o_proj", "out_proj", "out_lin", "dense", "o", "c_proj", "Wo", "proj", "projection",
    "projection_layer", "linear_out", "to_out", "attention_out", "post_proj", "output",
    "output_proj", "post",
)
OUTPUTS_ABOVE = ("output.dense", "output", "post")

# Attributes with the width of a head, the numbers of heads, and the width of all heads together.
WIDTHS = (
    "v_head_dim", "head_dim", "attention_head_size", "head_size", "d_head", "key_value_proj_dim",
    "dim_per_head", "dim_head", "head_width",
)
COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads", "heads")
KEY_COUNTS = ("num_key_value_heads", "num_kv_heads", "kv_heads")
TOTALS = (
    "all_head_size", "inner_dim", "split_size", "q_size", "q_dim", "attn_dim", "hidden_size_output",
)

# Other parts with rows or numbers for each head, which are cut together with the queries.
PER_HEAD_ROWS = (
    "query_global", "key_global", "value_global", "w2e_query", "e2w_query", "e2e_query",
    "pos_proj", "pos_q_proj", "pos_key_proj", "pos_query_proj", "linear_pos", "relative_k_proj",
)
PER_HEAD_VECTORS = ("q_bias", "v_bias", "sinks")
# Other parts that keep heads apart and stay as they are. Any further part may mix heads.
HARMLESS = (
    "LayerNorm", "dense_bias", "gate_proj", "gate_bias", "g_proj", "relative_attention_bias",
    "relative_pos_embeddings", "rel_pos_h", "rel_pos_w", "r_proj", "k_sconv", "v_sconv",
    "rel_logits_proj", "indexer", "dt_proj", "A", "layer_norm", "continuous_position_bias_mlp",
    "relative_position_embedding",
)
# Parts that give the numbers which latent attention expands, before there are heads.
BEFORE_HEADS = ("q_a_proj", "q_a_layernorm", "q_a_norm", "kv_a_proj_with_mqa", "kv_a_layernorm",
                "kv_a_norm", "kv_a_proj")
NORMS = {
    "q": ("q_norm", "q_layernorm", "query_norm"),
    "k": ("k_norm", "k_layernorm", "key_norm"),
}

# Feed-forward layers: the first matrix, or the gate and the first matrix, and the second matrix. A
# first matrix with two rows for each neuron holds both: first the gates, then the rest.
FEED_FORWARDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("gate_proj", "up_proj"), "down_proj"), (("gate_up_proj",), "down_proj"),
    (("up_proj",), "down_proj"), (("fc1",), "fc2"), (("intermediate.dense",), "output.dense"),
    (("c_fc",), "c_proj"), (("wi_0", "wi_1"), "wo"), (("wi",), "wo"), (("Wi",), "Wo"),
    (("lin1",), "lin2"), (("dense_h_to_4h",), "dense_4h_to_h"), (("w1", "w3"), "w2"),
    (("intermediate_dense",), "output_dense"), (("fc_in",), "fc_out"), (("ffn",), "ffn_output"),
    (("layer_1",), "layer_2"), (("linear_1",), "linear_2"), (("linear_fc1",), "linear_fc2"),
    (("linear1",), "linear2"), (("dense1",), "dense2"), (("intermediate",), "output"),
    (("ffw_layer_1",), "ffw_layer_2"), (("input_linear",), "output_linear"),
    (("w_in.w_0", "w_in.w_1"), "w_out"), (("ffn.0",), "ffn.2"), (("gate_proj",), "down_proj"),
    (("intermediate_query.dense",), "output_query.dense"),
)
# Attributes with the number of neurons.
NEURON_COUNTS = ("intermediate_size", "ffn_dim", "d_ff", "ffn_hidden_size", "hidden_features")
# Norms between the two matrices of a feed-forward layer, which mix its neurons.
NEURON_NORMS = ("ffn_layernorm", "ffn_sub_norm", "ffn_layer_norm_inner")
SPARSITY = "activation_sparsity"  # the share of neurons that a layer sets to 0 (Gemma 3n)
EXPERTS = ("experts",)  # of a mixture: each token uses a few of them
SHARED_EXPERTS = ("shared_expert", "shared_experts", "shared_mlp")  # beside them: for all tokens
# fmt: on

TIME_FIRST = ("fsmt", "xlnet")  # families whose layers have the batch as the second axis

# Attention that has no softmax.
NOT_SOFTMAX = re.compile(
    r"Delta|Lightning|LinearAttention|LSTM|Rwkv|Mamba|Deformable|Retention|EfficientAdditive|FNet"
)

FUSED_FUNCTION = "multi_head_attention_forward"  # in torch: from the queries to the output

# Parts of a module's path that mean attention over the encoder.
CROSS = ("encoder_attn", "crossattention", "EncDecAttention", "encdec", "cross")

# Names in the code of a layer that tie it to the shapes it was built with: the width of the model
# used as the width of all heads, or a fixed number of partitions.
RIGID = frozenset(
    {"embed_dim", "hidden_size", "dim", "d_model", "mp_num", "channel", "num_channels"}
)
# Arguments that bring something for each head the layer was built with.
PER_HEAD_ARGUMENTS = ("position_bias", "alibi", "rel_pos")

# Python modules that define activations.
ACTIVATION_MODULES = ("transformers.activations", "torch.nn.modules.activation")
