"""The kinds of tables and figures that recipes may name are those that can be built and drawn."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from by_hand import DRAWN, drawn, study

from deadhead.report import figures, tables
from deadhead.report.check import check_display
from deadhead.report.figures import FIGURES
from deadhead.report.page.content import content
from deadhead.report.spec import Display, Figure, Table
from deadhead.report.tables import TABLES, USUAL

KINDS = [("tables", name) for name in TABLES] + [("figures", name) for name in FIGURES]


def defined(package: Path, base: str) -> set[str]:
    """The kinds that the files of a folder define."""
    import importlib

    for file in package.glob("*.py"):
        importlib.import_module(f"{base}.{file.stem}" if file.stem != "__init__" else base)
    parent: type[Display] = Table if base.endswith("tables") else Figure
    every, left = set(), [parent]
    while left:
        left += (kind := left.pop()).__subclasses__()
        every |= {kind.__dict__["kind"]} if "kind" in kind.__dict__ else set()
    return every


@pytest.mark.parametrize(("module", "registry"), [(tables, TABLES), (figures, FIGURES)])
def test_every_kind_that_is_written_is_listed(module: object, registry: dict[str, type]) -> None:
    folder = Path(str(module.__file__)).parent  # type: ignore[attr-defined]
    assert defined(folder, module.__name__) == {*registry}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("part", "name"), KINDS)
def test_a_kind_has_its_listed_name_and_its_own_code(part: str, name: str) -> None:
    kind = (TABLES if part == "tables" else FIGURES)[name]
    assert kind.kind == name
    code = "build" if part == "tables" else "draw"
    assert getattr(kind, code) is not getattr(Table if part == "tables" else Figure, code)
    assert all("check" in field.metadata for field in dataclasses.fields(kind))
    assert USUAL in TABLES


@pytest.mark.parametrize(("part", "name"), KINDS)
def test_recipes_know_every_kind_and_its_options(part: str, name: str) -> None:
    kind = (TABLES if part == "tables" else FIGURES)[name]
    required = {f.name: "remove" for f in dataclasses.fields(kind) if f.metadata["required"]}
    entry = {"kind": name, **(required | ({"show": "removed"} if "show" in required else {}))}
    assert not [*check_display({part: [entry]}, Path("."))]
    problems = [*check_display({part: [{**entry, "banana": 1}]}, Path("."))]
    assert [path for path, _ in problems] == [(part, 0, "banana")]


def test_a_stored_entry_that_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    """A study may come from a version that has other kinds."""
    import json

    folder = study(tmp_path, DRAWN + "figures: [{kind: cost}]\n", drawn)
    described = json.loads((folder / "study.json").read_text())
    described["recipe"]["figures"] = [{"kind": "banana"}, {"kind": "curve"}, {"kind": "epochs"}]
    described["recipe"]["tables"] = [{"kind": "banana"}, {"rows": "remove"}]
    (folder / "study.json").write_text(json.dumps(described))
    page = content(folder)
    assert [table["row_names"] for table in page["tables"]] == [["remove"]]
    assert [figure["kind"] for figure in page["figures"]] in ([], ["epochs"])
