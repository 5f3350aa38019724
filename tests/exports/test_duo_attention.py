"""The DuoAttention pattern of a ranking, read as kvpress 0.5 reads it."""

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch

from deadhead import Streaming, export_duo_attention, prune, rank
from deadhead.errors import DeadheadError
from tiny_models import build


def ranked(model, **options):
    ids = torch.arange(5, 65).view(2, 30)
    given = {"streaming": Streaming(sink=2, recent=5), "loss": "self", **options}
    return rank(model, [{"input_ids": ids}], "ablation", **given)


def test_the_files_are_what_kvpress_reads(tmp_path):
    model = build("llama")
    ranking = ranked(model)
    folder = export_duo_attention(model, ranking, tmp_path / "pattern")
    config = json.loads((folder / "config.json").read_text())
    assert (config["sink_size"], config["recent_size"]) == (2, 5)
    text = (folder / "full_attention_heads.tsv").read_text()
    table = np.loadtxt(StringIO(text), dtype=float, delimiter="\t")
    keys, heads = model.config.num_key_value_heads, model.config.num_attention_heads
    assert table.shape == (model.config.num_hidden_layers, keys)
    assert heads > keys  # or the test would not see the groups
    assert (table.min(), table.max()) == (0, 1)
    scores = np.array(
        [
            [
                max(ranking[f"decoder.{layer}.{h}"] for h in range(heads) if h * keys // heads == k)
                for k in range(keys)
            ]
            for layer in range(len(table))
        ]
    )
    assert np.allclose(table, (scores - scores.min()) / np.ptp(scores))


def test_what_is_no_pattern_is_refused(tmp_path):
    model, target = build("llama"), tmp_path / "pattern"
    ranking = ranked(model)

    def refuses(message, model=model, ranking=ranking, folder=target):
        with pytest.raises(DeadheadError, match=message) as error:
            export_duo_attention(model, ranking, folder)
        assert error.value.hint
        assert not target.exists()

    refuses("expected a ranking of streaming heads", ranking=ranked(model, streaming=None))
    refuses(
        "all heads have the same score",
        ranking=replace(ranking, scores=dict.fromkeys(ranking.scores, 1.0)),
    )
    refuses("has no score", ranking=ranked(model, closed=["decoder.0.0"]))
    refuses("exists already", folder=tmp_path)
    bert = build("bert")
    refuses("expects a decoder with attention in every layer", bert, ranked(bert))
    cut = build("llama")
    prune(cut, ["decoder.0.0", "decoder.0.1"])
    refuses("a table of layers x key/value heads", cut, ranked(cut))
