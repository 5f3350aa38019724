"""The release of a treebank, by its folder or its README."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deadhead.cli.data import app
from deadhead.tasks.locating.folder import release_of

SENTENCE = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "release"),
    [
        ({"ud-treebanks-v2.7/UD_X/x.conllu": ""}, "2.7, by its folder"),
        ({"UD_X/x.conllu": "", "UD_X/README.md": "Uses v2.12 of a tool.\n# Changelog\n* 2020-11-15 v2.7\n* From v1.2 to v2.0\n"}, "2.7 or later, by its README"),
        ({"UD_X/x.conllu": "", "UD_X/README.txt": "Changelog\n2.10\n2.9\n"}, "2.10 or later, by its README"),
        ({"UD_X/x.conllu": "", "UD_X/README.md": "Nothing."}, ""),
        ({"UD_X/x.conllu": ""}, ""),
    ],
)  # fmt: skip
def test_the_release_of_a_treebank(tmp_path, files, release):
    put(tmp_path, files)
    assert release_of(tmp_path / next(iter(files))) == release


def test_a_check_names_the_release(tmp_path):
    put(tmp_path, {"ud-treebanks-v2.7/pos/UD_German-GSD/de_gsd-ud-test.conllu": SENTENCE})
    assert "(UD 2.7, by its folder)" in CliRunner().invoke(app, ["check", str(tmp_path)]).stdout
