"""The papers that deadhead re-runs: a folder each, and this catalogue of them.

    papers/weak_link/paper.yaml        title, authors, link, presets of its training, numbers
    papers/weak_link/recipes/*.yaml    a recipe for each table and figure: weak-link/table4
    papers/weak_link/published/*.csv   the numbers it prints: weak-link/table4.csv
    papers/weak_link/claims.py         its statements, each with the function that judges it

The catalogue only reads files, so any part of the package may use it. `papers.claims` loads the
claims. A paper is a folder and its name in `FOLDERS`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name

PACKAGE = __name__.rpartition(".")[0]
FOLDERS = ["weak_link", "mbert_prunability", "contributions"]  # in the order of all lists


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What `paper.yaml` says, and where the other files are."""

    name: str  # as users type it: weak-link
    folder: Path
    title: str
    authors: str
    year: int
    venue: str
    link: str
    builds_on: Sequence[str] = ()  # papers whose printed numbers it takes over
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # settings of training
    blocks: Mapping[str, str] = field(default_factory=dict)  # its name of a block -> ours
    rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by task and split
    weights: Mapping[str, float] = field(default_factory=dict)  # parameters, by model
    random_draw: int = 0  # the permutation with which its random-k control begins


def names() -> list[str]:
    """The names of all papers, without reading their files."""
    return [folder.replace("_", "-") for folder in FOLDERS]


def papers() -> dict[str, Paper]:
    """All papers by name."""
    return {paper.name: paper for paper in map(_read, map(_folder, FOLDERS))}


def paper(name: str) -> Paper:
    known = papers()
    if name not in known:
        raise unknown_name("paper", name, known)
    return known[name]


def combined(fact: str) -> dict[str, Any]:
    """One field of all papers, such as their `presets`, in one mapping."""
    return {name: value for one in papers().values() for name, value in getattr(one, fact).items()}


def recipe_files() -> dict[str, Path]:
    """The papers' recipes: `weak-link/table4` -> file."""
    return {name.removesuffix(".yaml"): file for name, file in _files("recipes/*.yaml").items()}


def published_files() -> dict[str, Path]:
    """The tables that papers print: `weak-link/table4.csv` -> file."""
    return _files("published/*.csv")


def claim_modules() -> dict[str, str]:
    """The modules with the papers' claims: `weak-link` -> its `claims.py`, as it is imported."""
    return {
        name: f"{PACKAGE}.{one.folder.name}.claims"
        for name, one in papers().items()
        if (one.folder / "claims.py").is_file()
    }


def _files(pattern: str) -> dict[str, Path]:
    """The files of all papers by their names, with the paper in front."""
    return {
        f"{one.name}/{file.name}": file
        for one in papers().values()
        for file in sorted(one.folder.glob(pattern))
    }


def _folder(name: str) -> Path:
    """The folder of a paper: here, or in a folder that was added to the path of the package."""
    folders = [Path(root) / name for root in sys.modules[PACKAGE].__path__]
    return next((folder for folder in folders if (folder / "paper.yaml").is_file()), folders[0])


@cache
def _read(folder: Path) -> Paper:
    import yaml

    stored = yaml.safe_load((folder / "paper.yaml").read_text(encoding="utf-8"))
    return Paper(name=folder.name.replace("_", "-"), folder=folder, **stored)
