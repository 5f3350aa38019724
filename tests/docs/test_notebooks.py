"""The notebooks of examples/ run from top to bottom, and show heat maps and progress."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from doc_blocks import ROOT
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
EXPECTED = {  # what the outputs of each notebook must have among them
    "ablate-and-patch": ("decoder.0.0: ", "effect of patching each head"),
    "find-and-cut-heads": ("encoder.0.0: ", "heads are there", "epoch 1/1  update", ": removed"),
    "read-a-study": ("smoke 3/3", "de/test/micro_f1", "encoder.0.0"),
}


def run(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run all cells in a kernel; returns what they show, as HTML where they show that."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / name))
    with TemporaryDirectory() as sockets:  # a short path, and no ports that another test may use
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(
            notebook, km=manager, timeout=600, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    data = [output["data"] for output in outputs if "data" in output]
    return "\n".join(page.get("text/html", page.get("text/plain", "")) for page in data)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run(nbformat.read(path, as_version=4), tmp_path, monkeypatch)
    assert [text for text in EXPECTED[path.stem] if text not in outputs] == []


def test_every_notebook_is_valid_and_has_no_outputs() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(EXPECTED)
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
