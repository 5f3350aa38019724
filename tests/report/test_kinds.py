"""The kinds of tables and figures that recipes may name are those that can be built and drawn."""

import dataclasses
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from deadhead.report import figures, tables
from deadhead.report.check import check_display
from deadhead.report.figures import FIGURES
from deadhead.report.spec import Display, specs
from deadhead.report.tables import TABLES

KINDS = [("tables", name) for name in TABLES] + [("figures", name) for name in FIGURES]


def defined(package):
    """The kinds that the files of a package define."""
    files = [file.stem for file in Path(str(package.__file__)).parent.glob("*.py")]
    modules = [import_module(f"{package.__name__}.{name}") for name in files if name != "__init__"]
    classes = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Display)
        and kind.__module__ == module.__name__
    ]
    return {kind.__dict__["kind"] for kind in classes if "kind" in kind.__dict__}


@pytest.mark.parametrize(("module", "registry"), [(tables, TABLES), (figures, FIGURES)])
def test_every_kind_that_is_written_is_listed(module, registry):
    assert defined(module) == {*registry}


@pytest.mark.parametrize(("part", "name"), KINDS)
def test_recipes_know_every_kind_and_its_options(part, name):
    kind = (TABLES if part == "tables" else FIGURES)[name]
    required = {f.name: "remove" for f in dataclasses.fields(kind) if f.metadata["required"]}
    entry = {"kind": name, **(required | ({"show": "removed"} if "show" in required else {}))}
    assert not [*check_display({part: [entry]}, Path("."))]
    problems = [*check_display({part: [{**entry, "banana": 1}]}, Path("."))]
    assert [path for path, _ in problems] == [(part, 0, "banana")]


def test_an_entry_of_a_stored_recipe_that_cannot_be_read_is_skipped_with_a_warning():
    entries = [{"kind": "hologram"}, {"kind": "curve", "colour": "red"}]
    with pytest.warns(UserWarning, match="skipped") as warned:
        assert list(specs(entries, FIGURES)) == []
    assert [str(w.message).split(" of the study")[0] for w in warned] == [
        f"skipped {entry!r}" for entry in entries
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(specs([{"kind": "curve", "x": "remove"}], FIGURES))) == 1
