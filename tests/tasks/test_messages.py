"""Data that is not there: the message names what is, and what can be typed."""

import json

import pytest
from data_folder import put

from deadhead.errors import DataError
from deadhead.tasks import load_data


@pytest.fixture
def folder(tmp_path):
    """Parts of speech in two languages, and names twice in one."""
    tags = {"pos/en": "PROPN", "pos/de": "PROPN", "ner/another/en": "O"}
    put(tmp_path, {f"{name}-dev.txt": f"Jan\t{tag}\n\n" for name, tag in tags.items()})
    return put(tmp_path, {"ner/mine/en/dev.txt": "Jan\tO\n\n"})


@pytest.mark.parametrize("lang", ["EN", "nl"])
def test_the_languages_of_the_folder_are_named(lang, folder):
    with pytest.raises(DataError) as seen:
        load_data("pos", lang, "dev", root=folder)
    assert (
        seen.value.message == f"no dev data of pos in {lang} in {folder}. There it is in: de, en."
    )


@pytest.mark.parametrize("lang", ["xx", "EN"])
@pytest.mark.parametrize("task", ["pos", "xnli"])
def test_without_a_folder_the_languages_of_the_task_are_named(task, lang):
    with pytest.raises(DataError) as seen:
        load_data(task, lang, "dev")
    assert seen.value.message.startswith(
        f"no dev data of {task} in {lang} without a folder of data. Its languages: "
    )
    assert ", en, " in seen.value.message or ": en, " in seen.value.message
    assert "with --data DIR, or set DEADHEAD_DATA, which is not set" in (seen.value.hint or "")


def test_corpora_of_a_language_are_named_by_their_folders(folder):
    with pytest.raises(DataError) as seen:
        load_data("ner", "en", "dev", root=folder)
    assert seen.value.message == "ner in en is here more than once: another, mine."
    hint = f"name one: --data {folder}/ner/another, or --source another; list the files"
    assert (seen.value.hint or "").startswith(hint)
    assert len(load_data("ner", "en", "dev", root=folder / "ner/another")) == 1
    assert len(load_data("ner", "en", "dev", root=folder, source="another")) == 1
    (folder / "ner/another/en-dev.txt").rename(folder / "ner/en-dev.txt")  # a corpus without a name
    with pytest.raises(DataError) as seen:
        load_data("ner", "en", "dev", root=folder)
    hint = f"name one: --data {folder}/ner/mine, or --source mine; list the files"
    assert (seen.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("file", "printed"),
    [
        ("old/en-dev.txt", "--data {}/old, or --source old"),
        ("en-dev.txt", "in manifest.json, under `tasks`"),
    ],
)
def test_a_manifest_without_a_default(file, printed, tmp_path):
    about = {"task": "ner", "language": "en", "split": "dev", "format": "columns"}
    manifest = json.dumps({"tasks": {}, "files": {file: about}})
    put(tmp_path, {file: "Jan\tO\n\n", "manifest.json": manifest})
    with pytest.raises(
        DataError, match="ner in en is here in a corpus that is not the default"
    ) as seen:
        load_data("ner", "en", "dev", root=tmp_path)
    assert printed.format(tmp_path) in (seen.value.hint or "")
