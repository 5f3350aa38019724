"""Names of no model: typos are reported at once, the hub gets only names that it may have, and its
log is hidden."""

import logging
from pathlib import Path

import pytest

from deadhead.errors import FolderError
from deadhead.heads import load, save
from tiny_models import build


class Hub:
    """In the place of the hub: what was asked of it. It has no model."""

    def __init__(self):
        self.requests: list[str] = []

    def config(self, name, **_):
        self.requests.append(f"config of {name}")
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise OSError(f"{name} is not on the hub")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """No hub, and a folder to stand in with a model in `tagger` and a folder `taggers` that holds
    none."""
    built = Hub()
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", built.config)
    monkeypatch.chdir(tmp_path)
    save(build("bert"), tmp_path / "tagger")
    (tmp_path / "taggers").mkdir()
    return built


NO_HUB_NAME = ["/nowhere/taggr", "./taggr", "../here/taggr", "~/taggr", "a/b/taggr", "taggr/"]


@pytest.mark.parametrize("name", [*NO_HUB_NAME, Path("/nowhere/taggr")], ids=str)
def test_what_can_only_be_a_folder_is_not_requested_from_the_hub(name, hub):
    with pytest.raises(FolderError) as error:
        load(name)
    assert error.value.message == f"there is no folder {name}."
    assert hub.requests == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("./taggr", "tagger"),
        ("taggr", "tagger"),
        ("taggers2", "tagger"),
        ("{here}/taggr", "{here}/tagger"),
    ],
)
def test_the_nearest_folder_is_named(name, near, hub, tmp_path):
    with pytest.raises(FolderError) as error:
        load(name.format(here=tmp_path))
    assert error.value.hint == f"did you mean {near.format(here=tmp_path)}?"
    assert hub.requests == ([] if "/" in name else [f"config of {name}"])


def test_a_name_like_no_folder_goes_to_the_hub_in_silence(hub, caplog, capfd):
    logging.getLogger("huggingface_hub").setLevel(logging.WARNING)  # whatever ran before
    with pytest.raises(FolderError, match="org/model is not on the hub"):
        load("org/model")
    assert hub.requests == ["config of org/model"]
    assert caplog.records == []
    assert capfd.readouterr().err == ""
    # its own handler may still write to the stderr of an earlier test, so a handler of ours listens
    messages: list[str] = []
    listener, logger = logging.Handler(), logging.getLogger("huggingface_hub.utils._http")
    listener.emit = lambda record: messages.append(record.getMessage())  # type: ignore
    logger.addHandler(listener)
    try:
        logger.warning("heard again")
    finally:
        logger.removeHandler(listener)
    assert messages == ["heard again"]


def test_a_file_is_no_folder(hub):
    with pytest.raises(FolderError) as error:
        load("tagger/model.safetensors")
    assert (error.value.message, error.value.hint) == (
        "expected a folder, got the file tagger/model.safetensors.",
        "use tagger",
    )
    Path("notes.txt").write_text("mine")
    with pytest.raises(FolderError) as error:
        load("notes.txt")
    assert error.value.hint == "name a folder with a saved model"
