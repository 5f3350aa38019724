"""What tests of this folder share: the name of the free steps, and records to compare."""

import json
from pathlib import Path

from deadhead.studies import load, run

WORK = "trivial:work"


def run_free(recipe, folder, **options):
    """Run a study in this process, by the steps that cost nothing."""
    recipe = load(recipe) if isinstance(recipe, Path) else recipe
    return run(recipe, folder, executor="serial", work=WORK, **options)


def stable_records(folder):
    """All records of a study, without the part that depends on time and order."""
    results = {}
    for file in (folder / "records").iterdir():
        assert file.suffix == ".json", f"{file} was left behind"
        record = json.loads(file.read_text())
        del record["cost"], record["digest"]
        results[file.stem] = record
    return results
