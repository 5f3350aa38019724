"""Imports flow one way: which room may import which, and no circle, lazy imports included.

A room is a top-level module or folder of the package. In `studies`, `report` and `papers`, which
are large, every subfolder and every module is a room of its own. `ALLOWED` names for each room the
rooms it may import.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import deadhead

SOURCE = Path(deadhead.__file__).parent
ROOT, TESTS = Path(__file__).parents[1], ("benchmarks", "tests", "tools")
DIVIDED = ("studies", "report", "papers")

ALLOWED = {
    # ground
    "version": "",
    "errors": "version",
    "display": "",
    "files": "errors",
    "forward": "errors",
    "layout": "display errors",
    "numerics": "errors",
    "registry": "errors",
    "papers": "",
    "papers.catalogue": "errors",
    "recipes": "",
    # one model, and what scores or chooses its heads
    "heads": "display errors files forward layout numerics",
    "verify": "errors forward heads layout numerics",
    "ranking": "display errors files layout",
    "strategies": "errors layout papers.catalogue registry",
    "embedding": "errors heads",
    "exports": "display embedding errors files heads layout ranking",
    "rankers": "display embedding errors forward heads layout numerics ranking registry version",
    "effects": "display errors files forward heads layout rankers ranking registry",
    "measures": "errors forward heads layout numerics rankers registry",
    "shrinking": "display embedding errors forward heads layout numerics rankers registry "
    "strategies",
    "translation": "errors heads",
    "vocabulary": "errors files forward heads",
    # data, training, saved models
    "world": "errors",
    "guard": "",
    "tasks": "errors files forward papers.catalogue world",
    "training": "display embedding errors files forward heads layout numerics papers.catalogue "
    "rankers tasks vocabulary",
    "saved": "display embedding errors files forward guard heads layout numerics rankers "
    "shrinking tasks training vocabulary world",
    # studies
    "studies.fields": "errors files registry tasks",
    "studies.step": "registry studies.fields",
    "studies.trial": "strategies studies.fields studies.step",
    "studies.store": "errors files studies.trial",
    "studies.inputs": "errors files studies.store studies.trial tasks",
    "studies.steps": "errors files heads layout measures rankers ranking saved "
    "shrinking strategies studies.fields studies.step studies.store "
    "studies.trial tasks training translation",
    "studies.execution": "errors numerics registry studies.fields studies.inputs studies.steps "
    "studies.store studies.trial version",
    "studies.missing_data": "errors studies.steps studies.trial tasks",
    "studies.recipe": "errors files papers.catalogue strategies studies.fields studies.inputs "
    "studies.step studies.trial tasks translation",
    "studies.corpora": "errors studies.missing_data studies.recipe studies.steps studies.trial "
    "tasks",
    "studies.cost": "errors files papers.catalogue studies.execution studies.missing_data "
    "studies.step studies.steps studies.trial tasks",
    "studies.study": "display files studies.corpora studies.execution "
    "studies.inputs studies.missing_data studies.recipe studies.store "
    "studies.trial",
    "studies.status": "studies.store studies.study",
    "studies.plan": "numerics studies.corpora studies.cost studies.execution "
    "studies.inputs studies.missing_data studies.recipe studies.step "
    "studies.store studies.study studies.trial",
    "studies": "studies.execution studies.plan studies.recipe studies.status "
    "studies.step studies.store studies.study studies.trial",
    # what a study shows
    "results": "errors layout measures papers.catalogue ranking strategies studies.store "
    "studies.study studies.trial tasks",
    "papers.claims": "errors papers.catalogue results strategies tasks",
    "papers.contributions": "errors papers.claims results tasks",
    "papers.mbert_prunability": "errors layout papers.claims results",
    "papers.weak_link": "errors papers.claims results",
    "report": "",
    "report.labels": "strategies tasks",
    "report.spec": "errors papers.catalogue results strategies studies.fields studies.recipe tasks",
    "report.tables": "errors registry report.labels report.spec results "
    "studies.trial tasks translation",
    "report.figures": "errors layout measures registry report.labels "
    "report.spec report.tables results strategies studies.fields tasks",
    "report.findings": "layout measures report.labels report.tables results strategies tasks",
    "report.check": "errors papers.claims registry report.figures report.spec report.tables "
    "studies studies.fields studies.recipe",
    "report.export": "errors report.figures report.tables results studies.store",
    "report.page": "errors files papers.claims report.figures report.findings "
    "report.labels report.tables results saved "
    "studies.store tasks",
    # doors
    "deadhead": "effects exports heads layout rankers ranking shrinking strategies "
    "tasks training verify version vocabulary",
    "cli": "display embedding errors exports files heads layout numerics "
    "papers.catalogue papers.claims rankers ranking report.check report.export report.page "
    "results saved shrinking strategies studies "
    "studies.plan studies.recipe studies.status "
    "studies.store tasks training verify version vocabulary",
    "__main__": "cli",
}
# Modules that import by a computed name, and what they load.
NAMED = ("import_module", "resolve_name")
DYNAMIC = {
    "": "the public names of the package",
    "training": "its public names",
    "rankers": "rank",
    "shrinking": "its public names",
    "registry": "a strategy, ranker, measure or step of its own package",
    "papers.claims": "the claims of each paper that the catalogue lists",
    "studies.execution.jobs": "the function that runs a trial, which tests replace",
    "studies.execution.executors": "the same function",
    "cli": "its commands",
    "errors": "the module that a name moved to",
    "heads.load_encoder": "the modules of sentence-transformers, which have moved",
}


def modules():
    """Every module by its dotted name below deadhead; the package itself is ''."""
    paths = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def room(module):
    first, *rest = module.split(".")
    if first in DIVIDED and rest:
        return f"{first}.{rest[0]}"
    return first or "deadhead"


def imports(code, module, known):
    """The modules of deadhead that this code of a module imports, at any depth."""
    package = ["deadhead", *module.split(".")] if module else ["deadhead"]
    if known[module].name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            targets = [(alias.name.split("."), "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else []
            start = [*parents, *(node.module.split(".") if node.module else [])]
            targets = [(start, alias.name) for alias in node.names]
        else:
            continue
        for (top, *rest), name in targets:
            if top == "deadhead":
                inner = ".".join([*rest, name])
                yield inner if inner in known else ".".join(rest)


def graph():
    """Module -> the modules it imports."""
    known = modules()
    return {
        name: {*imports(path.read_text(encoding="utf-8"), name, known)} - {name}
        for name, path in known.items()
    }


def circle(edges):
    """A circle of imports, or an empty list."""
    done: set[str] = set()

    def walk(name, way):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for target in sorted(edges.get(name, ())):
            if steps := walk(target, [*way, name]):
                return steps
        done.add(name)
        return []

    return next((steps for name in sorted(edges) if (steps := walk(name, []))), [])


def test_every_room_imports_only_what_it_may():
    strangers = {
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in targets
        if room(target) not in (room(module), *ALLOWED.get(room(module), "").split())
    }
    assert not strangers


def test_the_list_knows_every_room():
    assert {room(module) for module in modules()} == set(ALLOWED)
    named = {name for names in ALLOWED.values() for name in names.split()}
    assert named <= set(ALLOWED)


def test_the_list_allows_nothing_that_no_module_needs():
    used: dict[str, set[str]] = {}
    for module, targets in graph().items():
        used.setdefault(room(module), set()).update(map(room, targets))
    unused = {name: set(names.split()) - used[name] for name, names in ALLOWED.items()}
    assert not {name: names for name, names in unused.items() if names}


def test_imports_by_a_computed_name_are_known():
    calls = {
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(NAMED)
    }
    assert calls == set(DYNAMIC)


def test_there_is_no_circle_of_imports():
    assert circle(graph()) == []
    assert circle({name: set(names.split()) for name, names in ALLOWED.items()}) == []


def named_types(source):
    """The classes and the type aliases of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


def test_a_common_word_is_the_name_of_one_type():
    names = [n for path in modules().values() for n in named_types(path.read_text("utf-8"))]
    words = ("Place", "Batch", "Row", "Layer", "Unit", "Scores", "Shape")
    assert {word: names.count(word) for word in words if names.count(word) > 1} == {}
    assert {"Batch", "Scores"} <= {*names}
    assert list(named_types("class Row: ...\nRow = Mapping[str, str]\n")) == ["Row", "Row"]


def test_imports_inside_functions_count():
    known = modules()
    lazy = (
        "def f():\n    if True:\n        from ..layout import Head\n        import deadhead.errors"
    )
    assert set(imports(lazy, "heads.gates", known)) == {"layout", "errors"}
    assert set(imports("from . import sites, gated", "heads.gates", known)) == {
        "heads.sites",
        "heads",
    }
    assert set(imports("from .load import load", "heads", known)) == {"heads.load"}
    assert set(imports("from os import path", "heads", known)) == set()
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_there_is_no_room_for_odds_and_ends():
    assert not [f for f in SOURCE.rglob("*.py") if f.stem in ("utils", "helpers", "common", "misc")]


INSIDE_A_STUDY = {"cells", "record", "records", "summaries"}  # where its scores come from
A_STUDY = re.compile(r"(.*\.)?study|Study\.open\(.*\)")


def reads_inside(code):
    """Whether code reads cells or records, from anything, or from what is called a study."""
    read = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)]
    return any(
        node.attr == "records"
        or (node.attr in INSIDE_A_STUDY and A_STUDY.fullmatch(ast.unparse(node.value)))
        for node in read
    )


def test_no_two_test_files_share_a_name():
    """pytest imports test files by name alone, and refuses the second of two."""
    names = [file.name for top in TESTS for file in (ROOT / top).rglob("test_*.py")]
    assert len(names) > 100
    assert {name for name in names if names.count(name) > 1} == set()


def test_only_results_and_studies_read_the_cells_and_records_of_a_study():
    """All others read what it says: scores, searches, rankings, measures, trials and means."""
    readers = {
        name for name, path in modules().items() if reads_inside(path.read_text(encoding="utf-8"))
    }
    assert {name.partition(".")[0] for name in readers} <= {"results", "studies"}


@pytest.mark.parametrize(
    ("code", "inside"),
    [
        ("for record in study.records.values(): pass", True),
        ("rows = [cell for cell in self.study.cells]", True),
        ("Study.open(folder).summaries", True),
        ("from deadhead.studies.store.records import Record", False),
        ("study.scores, mean.cells, table.cells", False),
    ],
)
def test_a_reader_of_cells_and_records_is_found(code, inside):
    assert reads_inside(code) == inside


def test_few_modules_are_loose_and_no_room_is_a_hall():
    assert len(list(SOURCE.glob("*.py"))) <= 6
    assert len(list((SOURCE / "heads").rglob("*.py"))) <= 35


@pytest.mark.parametrize(
    "code",
    [
        "import deadhead",
        "import deadhead; deadhead.Head('encoder', 0, 1), deadhead.HeadLayout, dir(deadhead)",
        "import deadhead; deadhead.strategies",
        "import deadhead.cli",
        "import deadhead.studies; dict(deadhead.studies.STEPS)",
        "import deadhead.papers.claims; deadhead.papers.claims.published()",
        "import deadhead.report.page.html, deadhead.report.export",
        *(
            f"import sys; sys.argv = {['deadhead', *words]}\n"
            "try:\n import deadhead.cli; deadhead.cli.main()\nexcept SystemExit: pass"
            for words in (["--help"], ["heads", "--help"])
        ),
    ],
)
def test_torch_is_not_loaded_before_it_is_needed(code):
    loaded = "\nimport sys; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + loaded], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_torch_is_loaded_when_it_is_needed():
    code = "import sys, deadhead; deadhead.discover; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
