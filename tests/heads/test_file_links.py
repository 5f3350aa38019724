"""No link is followed out of a model's folder, so that no private file gets into a copy."""

import os
import shutil
from pathlib import Path

import pytest

from deadhead.errors import FolderError
from deadhead.heads import load, save
from deadhead.world import MODELS

SECRET = "private key"


@pytest.fixture
def folder(tmp_path):
    """A model with links to a private folder and to private files."""
    keys = tmp_path / "home" / ".ssh"
    keys.mkdir(parents=True)
    (keys / "id").write_text(SECRET)
    model = Path(shutil.copytree(MODELS / "encoder", tmp_path / "model"))
    (model / "keys").symlink_to(keys, target_is_directory=True)
    (model / "notes.txt").symlink_to("../home/.ssh/id")
    (model / "README.md").symlink_to(keys / "id")
    (model / "modules").mkdir()
    (model / "modules" / "below").symlink_to(keys / "id")
    (model / "modules" / "own.json").write_text("{}")
    (model / "LICENSE").symlink_to("modules/own.json")  # stays inside
    return model


def check_copy(out):
    texts = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert SECRET.encode() not in b"".join(texts.values())
    assert (out / "LICENSE").read_text() == (out / "modules" / "own.json").read_text() == "{}"
    assert not any(path.is_symlink() for path in texts)


def test_a_copy_has_nothing_from_outside(folder, tmp_path):
    check_copy(save(load(folder), tmp_path / "saved"))


@pytest.mark.parametrize(
    "name", ["vocab.txt", "chat_template.jinja", "generation_config.json", "tokenizer.json"]
)
def test_text_that_is_saved_again_must_be_of_the_folder(folder, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("../home/.ssh/id")
    with pytest.raises(FolderError, match=rf"{name} is a link out of its folder(.|\n)*copy"):
        load(folder)


def test_a_snapshot_of_the_hub_has_links_to_its_blobs(folder, tmp_path):
    cached = tmp_path / "hub" / "models--someone--model"
    snapshot = cached / "snapshots" / ("4" * 40)
    (snapshot / "1_Pooling").mkdir(parents=True)
    (cached / "blobs").mkdir()
    names = [path.name for path in (MODELS / "encoder").iterdir()]
    for place in [*names, "1_Pooling/config.json", "LICENSE"]:
        blob = cached / "blobs" / place.replace("/", "-")
        if place in names:
            shutil.copyfile(MODELS / "encoder" / place, blob)
        else:
            blob.write_text(place)
        (snapshot / place).symlink_to(os.path.relpath(blob, (snapshot / place).parent))
    (cached / "blobs" / "stolen").symlink_to(folder.parent / "home" / ".ssh" / "id")
    (snapshot / "stolen").symlink_to("../../blobs/stolen")
    saved = save(load(snapshot), tmp_path / "saved")
    assert (saved / "1_Pooling" / "config.json").read_text() == "1_Pooling/config.json"
    assert (saved / "LICENSE").read_text() == "LICENSE"
    assert (saved / "tokenizer.json").is_file()
    assert not (saved / "stolen").exists()
