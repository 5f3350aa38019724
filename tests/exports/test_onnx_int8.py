"""An encoder in int8, as one file and as a folder, and weights in a file beside the graph."""

import importlib

import pytest

from deadhead.errors import UnsupportedModel


def test_one_file_in_int8(traced_encoder, tmp_path):
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    result = exporting.exported(traced_encoder.model, onnx=tmp_path / "int8.onnx", int8=True)
    assert result.gap < 1e-5 < result.int8_gap < 0.6  # random weights exaggerate every rounding
    assert result.size == (tmp_path / "int8.onnx").stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["int8.onnx"]


def test_weights_in_a_second_file(traced_encoder, tmp_path, monkeypatch):
    """A low limit stands for a model of more than 2 GB; the folder is also quantised."""
    exporting = importlib.import_module("deadhead.exports.onnx.export")
    graphs = importlib.import_module("deadhead.exports.onnx.graph")
    for module in (exporting, graphs):
        monkeypatch.setattr(module, "LARGEST", 1000)
    with pytest.raises(UnsupportedModel, match="one ONNX file holds at most 2 GB"):
        exporting.exported(traced_encoder.model, onnx=tmp_path / "model.onnx")
    sizes = []
    quantise = exporting._quantise

    def noted(file, *, large):
        sizes.append(file.with_name("model.onnx.data").stat().st_size)
        quantise(file, large=large)

    monkeypatch.setattr(exporting, "_quantise", noted)
    result = exporting.exported(traced_encoder.model, onnx=tmp_path / "folder", int8=True)
    assert result.gap < 1e-5 < result.int8_gap < 0.6
    data = result.place / "model.onnx.data"
    assert 1000 < data.stat().st_size < sizes[0]
    assert result.size == data.stat().st_size + (result.place / "model.onnx").stat().st_size
