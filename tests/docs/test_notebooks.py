"""The notebooks of examples/ run from top to bottom, and show heat maps and progress."""

from tempfile import TemporaryDirectory

import nbformat
import pytest
from doc_blocks import ROOT
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
EXPECTED = {  # what the outputs of each notebook must have among them
    "ablate-and-patch": ("decoder.0.0: ", "effect of patching each head"),
    "find-a-circuit": ("pairs solved", "attribution encoder", "encoder.4.7: ", "faithfulness"),
    "find-and-cut-heads": ("encoder.0.0: ", "heads are there", "epoch 1/1  update", ": removed"),
    "read-a-study": ("smoke 3/3", "de/test/micro_f1", "encoder.0.0"),
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for all notebooks: each would load torch again."""
    folder = tmp_path_factory.mktemp("jupyter")
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as sockets:
        for name in names:
            patch.setenv(name, str(folder / name))
        # sockets with a short path, and no ports that another test may use
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        yield manager
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)


def run(notebook, folder, kernel):
    """Run all cells without the names of other notebooks; return what they show."""
    fresh = f"%reset -f\n__import__('os').chdir({str(folder)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(fresh))
    NotebookClient(notebook, km=kernel, timeout=600).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    data = [output["data"] for output in outputs if "data" in output]
    return "\n".join(page.get("text/html", page.get("text/plain", "")) for page in data)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, kernel):
    outputs = run(nbformat.read(path, as_version=4), tmp_path, kernel)
    assert [text for text in EXPECTED[path.stem] if text not in outputs] == []


def test_every_notebook_is_valid_and_has_no_outputs():
    assert {path.stem for path in NOTEBOOKS} == set(EXPECTED)
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
