"""Folders that an earlier deadhead wrote still load: saved models, a ranking, a study.

`old_folders` holds files as they lie on a user's disk, so nothing here is written again by a test.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from deadhead import Ranking, discover, load
from deadhead.studies import load as load_recipe
from deadhead.studies.trial import Trial

HERE = Path(__file__).resolve().parent
FOLDERS, RESULTS = HERE / "old_folders", HERE.parent / "docs" / "results"
FORMS = ("compact", "padded")
REMOVED = {"encoder.0.1", "encoder.1.0", "encoder.1.2", "encoder.1.3"}
LOGITS = [[0.7681373, 0.4911509, 1.1988415], [0.7900435, 0.4987646, 1.1750691]]


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_model_gives_the_logits_it_gave(form):
    import torch

    model = load(FOLDERS / form).eval()
    ids = torch.tensor([[1, 5, 7, 2, 0], [3, 4, 9, 11, 6]])
    with torch.no_grad():
        logits = model(ids, attention_mask=(ids > 0).long()).logits
    assert logits.tolist() == [pytest.approx(row, abs=1e-5) for row in LOGITS]
    whole = {f"encoder.{layer}.{index}" for layer in range(2) for index in range(4)}
    assert {str(head) for head in discover(model)} == whole - REMOVED


@pytest.mark.parametrize("form", FORMS)
def test_the_removed_heads_matter(form, tmp_path):
    """Without the list of removed heads the folder is another model, or none."""
    folder = shutil.copytree(FOLDERS / form, tmp_path / form)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config.pop("deadhead")["form"] == form
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if form == "compact":
        with pytest.raises(Exception, match=r"size|shape"):
            load(folder)
    else:
        assert len(discover(load(folder))) == 8


def test_a_saved_ranking_gives_its_order():
    ranking = Ranking.load(FOLDERS / "ranking.json")
    assert [str(head) for head in ranking.order] == [
        "encoder.0.0",
        "encoder.0.2",
        "encoder.0.3",
        "encoder.1.1",
    ]
    assert {str(head): score for head, score in ranking.scores.items()}["encoder.1.1"] == 0.75
    assert (ranking.method, ranking.seed, len(ranking.layout)) == ("gradient", 7, 4)


@pytest.mark.parametrize("archive", sorted(RESULTS.glob("*.tar.xz")), ids=lambda file: file.name)
def test_a_study_folder_holds_the_trials_of_its_recipe(archive):
    """The recipe of today has the trials whose records were written.

    Their ids are those of the records, but for the hashes of model and data, which newer records
    have too and a recipe alone does not know.
    """
    name = archive.name.removesuffix(".tar.xz")
    with tarfile.open(archive) as packed:
        files = [file for file in packed if Path(file.name).parent.name == "records"]
        records = {Path(f.name).stem: json.load(packed.extractfile(f))["trial"] for f in files}
    assert all(Trial(content).id == record for record, content in records.items())
    for content in records.values():
        content.pop("inputs", None)
    written = {Trial(content).id for content in records.values()}
    ids = {trial.id for trial in load_recipe(RESULTS / f"{name}.yaml").trials}
    assert ids
    assert ids <= written
