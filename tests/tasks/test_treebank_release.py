"""The release of a treebank, by its folder or its README."""

import pytest
from data_folder import put

from deadhead.tasks import check_folder
from deadhead.tasks.locating.folder import release_of

SENTENCE = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
CHANGES = "Uses v2.12 of a tool.\n# Changelog\n* 2020-11-15 v2.7\n* From v1.2 to v2.0\n"


@pytest.mark.parametrize(
    ("folder", "readme", "text", "release"),
    [
        ("ud-treebanks-v2.7/UD_X", "README.md", "", "2.7, by its folder"),
        ("UD_X", "README.md", CHANGES, "2.7 or later, by its README"),
        ("UD_X", "README.txt", "Changelog\n2.10\n2.9\n", "2.10 or later, by its README"),
        ("UD_X", "README.md", "Nothing.", ""),
        ("UD_X", "other.md", CHANGES, ""),
    ],
)
def test_the_release_of_a_treebank(tmp_path, folder, readme, text, release):
    file = f"{folder}/de_x-ud-test.conllu"
    put(tmp_path / "pos", {file: SENTENCE, f"{folder}/{readme}": text})
    assert release_of(tmp_path / "pos" / file) == release
    assert [row.release for row in check_folder(tmp_path)] == [release]
