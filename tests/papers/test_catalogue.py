"""The catalogue of papers and everything that lists papers agree."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.papers import catalogue as papers
from deadhead.papers.claims import all_claims, luck, named, sources
from deadhead.studies import built_in, load

HOME = Path(papers.__file__).parent
OWN = {"demo", "shrink", "smoke"}  # recipes of no paper


def test_every_list_of_papers_agrees():
    names = list(papers.papers())
    assert names == [folder.replace("_", "-") for folder in papers.FOLDERS]
    assert {file.parent.name for file in HOME.glob("*/paper.yaml")} == set(papers.FOLDERS)
    folders = {entry.name for entry in HOME.iterdir() if entry.is_dir()}
    assert folders - {"__pycache__", "claims"} == set(papers.FOLDERS)  # `claims` judges them all
    assert sources() == (*names, luck.NAME)
    assert {claim.paper for claim in all_claims().values()} == set(sources())


def test_every_recipe_on_disk_is_listed_by_the_command():
    output = CliRunner().invoke(app, ["recipes"]).output
    listed = {line.split()[0] for line in output.splitlines() if "  " in line}
    files = {f"{p.parents[1].name.replace('_', '-')}/{p.stem}" for p in HOME.glob("*/recipes/*")}
    assert listed == files | OWN == set(built_in())
    assert {name.partition("/")[0] for name in files} == set(papers.papers())


def test_every_table_on_disk_is_in_the_catalogue():
    files = {f"{p.parents[1].name.replace('_', '-')}/{p.name}" for p in HOME.glob("*/published/*")}
    assert files == set(papers.published_files())


def test_every_claim_has_one_id_and_a_sentence_of_its_own():
    modules = [import_module(module) for module in papers.claim_modules().values()]
    ids = [claim.id for module in (*modules, luck) for claim in module.CLAIMS]
    claims = all_claims()
    assert len(ids) == len({*ids}) == len(claims) == 108
    statements = {claim.statement for claim in claims.values()}
    assert len(statements) == len(claims)
    assert all(text.endswith(".") and "{" not in text for text in statements)
    assert all(claim.unit for claim in claims.values())


def test_recipes_of_papers_name_claims_and_every_claim_is_named():
    ids: set[str] = set()
    for recipe in built_in():
        names = load(recipe).data.get("claims", [])
        assert bool(names) == (recipe not in OWN and not recipe.endswith("/grid"))
        ids |= {claim.id for name in names for claim in named(name)}
    counted = {name for name in all_claims() if name.startswith("L-count")}  # on any searches
    assert set(all_claims()) - ids == counted


def test_presets_are_those_of_the_papers():
    from deadhead.training.settings import PRESETS

    assert set(PRESETS) == set(papers.combined("presets"))


def test_the_catalogue_loads_neither_claims_nor_torch():
    code = (
        "import sys, deadhead.papers.catalogue as p; p.papers(), p.recipe_files();"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not {"torch", "numpy", "deadhead.papers.claims", "deadhead.studies"} & loaded
