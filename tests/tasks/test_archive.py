"""A release of Universal Dependencies, as it is unpacked: many treebanks of one language."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deadhead.cli.data import app
from deadhead.errors import DataError
from deadhead.tasks import check_folder, find_data, load_data
from deadhead.tasks.catalogue import papers_corpus
from deadhead.tasks.hub_sets import TREEBANKS
from ud_archive import OWN, archive


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return archive(tmp_path_factory.mktemp("ud"))


@pytest.mark.parametrize("lang", OWN)
def test_the_papers_treebank_is_read(lang, root):
    for split, place in find_data("pos", lang, ["train", "dev", "test"], root=root).items():
        assert isinstance(place, str), place
        assert Path(place).parent.name == OWN[lang]
        assert Path(place).name == f"{TREEBANKS[lang]}-ud-{split}.conllu"
    corpus = papers_corpus("pos", lang)
    assert corpus is not None
    assert (corpus.treebank, corpus.release) == (OWN[lang], "2.7")


def test_another_treebank_is_read_by_its_name(root):
    data = load_data("pos", "en", "test", root=root, source="UD_English-GUM")
    assert data.rows[0].texts == ("en_gum-ud-test",)


def test_a_language_without_a_paper_is_not_chosen_for(root):
    with pytest.raises(DataError, match="pos in fr is here more than once") as seen:
        load_data("pos", "fr", "test", root=root)
    assert "--source UD_French-GSD" in (seen.value.hint or "")


@pytest.mark.parametrize("lang", ["el", "grc", "lzh", "gsw", "qhe"])
def test_a_language_is_the_code_of_the_file(lang, root):
    rows = load_data("pos", lang, "test", root=root).rows
    assert rows[0].texts[0].startswith(f"{lang}_")


@pytest.mark.parametrize("task", ["ner", "slots", "sst2"])
def test_it_has_no_data_of_other_tasks(task, root):
    with pytest.raises(DataError, match=f"no test data of {task}"):
        load_data(task, "en", "test", root=root, source="files")


def test_the_folder_says_the_release(root):
    assert {row.release for row in check_folder(root, "pos") if row.task} == {"2.7, by its folder"}


def test_a_check_says_which_treebank_is_the_default(root):
    lines = CliRunner().invoke(app, ["check", str(root), "--task", "pos"]).stdout.splitlines()
    [ewt] = [line for line in lines if "UD_English-EWT" in line and " test " in line]
    [gum] = [line for line in lines if "UD_English-GUM" in line and " test " in line]
    assert "only with source" not in ewt
    assert "only with source: UD_English-GUM" in gum
