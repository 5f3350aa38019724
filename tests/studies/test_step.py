"""All lists of steps and fields agree: the table, the files, the documentation, the facts of each
step."""

import re
from pathlib import Path

import pytest

import deadhead.studies.steps
from deadhead.studies.step import STEPS, Step, fields

PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
NO_STEPS = {"__init__", "data", "models", "progress", "state", "training"}


def test_the_table_has_every_file_of_a_step():
    folder = Path(deadhead.studies.steps.__file__).parent
    assert {file.stem for file in folder.glob("*.py")} - NO_STEPS == {*STEPS}


def test_the_page_names_every_step_and_field():
    assert _first_column("step") == [*STEPS]
    assert sorted(_first_column("field of a trial")) == sorted(fields())


def _first_column(title):
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_agrees_with_itself(name):
    step: Step = STEPS[name]
    assert step.name == name
    assert {*step.needs} <= {field.name for field in step.fields}
    assert not (step.inspects and (step.trains or step.prunes))
    assert step.uses_languages or not (step.trains or step.ranks)


@pytest.mark.parametrize("field", fields().values(), ids=lambda field: field.name)
def test_a_field_accepts_its_own_default(field):
    assert fields()[field.name] is field
    if field.default is not None:
        assert not list(field.check(field.default))
        assert field.canonical(field.default) == field.default
    assert list(field.check(object()))  # the twin: it refuses what it cannot be
