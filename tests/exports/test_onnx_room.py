"""Models with few positions: no example of an export is longer than the model can read."""

from pathlib import Path

import onnxruntime
import pytest
import torch
import transformers

from deadhead.errors import UnsupportedModel
from deadhead.exports import export
from deadhead.exports.onnx import one_pass, steps
from deadhead.exports.onnx.cached import cached_graphs
from deadhead.heads import load, save

COMPACT = Path(__file__).parents[1] / "old_folders" / "compact"


class Echo:
    """Answers as the module of a graph does, and notes the lengths that it is asked."""

    def __init__(self, graph):
        self.graph = graph
        self.lengths: list[int] = []

    def run(self, _, inputs):
        self.lengths.append(inputs["input_ids"].shape[1])
        with torch.no_grad():
            answer = self.graph.module(*(torch.from_numpy(value) for value in inputs.values()))
        return [value.numpy() for value in answer]


def gpt2(positions):
    config = transformers.GPT2Config(
        vocab_size=60,
        n_embd=8,
        n_layer=1,
        n_head=2,
        n_positions=positions,
        activation_function="relu",
    )
    return transformers.GPT2LMHeadModel(config).eval()


def test_a_pass_over_eight_positions():
    model = load(COMPACT).eval()
    assert model.config.max_position_embeddings == 8
    graph = one_pass.one_pass_graph(model, None, "model.onnx")
    traced, echo = graph.inputs["input_ids"].shape[1], Echo(graph)
    assert all(gap == 0 for gap in one_pass.differences(graph, echo))
    assert traced not in (0, 1)
    assert max(echo.lengths) <= 8
    assert {*echo.lengths} - {traced}, "no other length than the traced one is compared"


@pytest.mark.parametrize("positions", [9, 10, 64])
def test_a_decoder_with_few_positions(positions):
    model = gpt2(positions)
    (graph,) = cached_graphs(model)
    with torch.no_grad():
        graph.module(*graph.inputs.values())
    rows = steps._fitting(model, steps.ROWS)
    longest = max(length for lengths in rows for length in lengths)
    assert longest == min(12, positions - 2)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_exporter")
def test_a_file_of_a_decoder_with_eight_positions(tmp_path):
    """Too few for a cache: one file of one pass needs fewer, as the hint for a folder says."""
    model = gpt2(8)
    save(model, tmp_path / "decoder")
    file = export(tmp_path / "decoder", onnx=tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(file)
    for rows, length in ((1, 8), (3, 2)):
        ids = torch.arange(rows * length).view(rows, length) % 60
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            expected = model(**batch).logits
        (logits,) = session.run(None, {name: value.numpy() for name, value in batch.items()})
        assert (torch.from_numpy(logits) - expected).abs().max() < 1e-4 * expected.abs().max()


def test_too_few_positions_are_one_error(tmp_path):
    save(gpt2(8), tmp_path / "decoder")
    with pytest.raises(UnsupportedModel, match=r"at least 9 positions .*, got 8\.\n") as problem:
        export(tmp_path / "decoder", onnx=tmp_path / "folder")
    assert "name a file that ends in .onnx" in (problem.value.hint or "")
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=5,
    )
    save(transformers.BertModel(config), tmp_path / "encoder")
    with pytest.raises(UnsupportedModel, match=r"at least 6 positions .*, got 5\.\n") as problem:
        export(tmp_path / "encoder", onnx=tmp_path / "model.onnx")
    assert "deadhead.load(FOLDER)" in (problem.value.hint or "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decoder", "encoder"]
