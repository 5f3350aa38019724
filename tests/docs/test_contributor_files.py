"""The files for contributors agree with the code: the version, the commands, the hooks."""

import tomllib

import yaml
from doc_blocks import ROOT

import deadhead


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == deadhead.__version__
    assert citation["license"] == project()["license"]
    assert citation["repository-code"] == project()["urls"]["Homepage"]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_ci_runs_the_one_command_on_both_processors():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    assert {entry["machine"] for entry in job["strategy"]["matrix"]["include"]} == {
        "x86_64",
        "arm64",
    }
    assert any(step.get("run") == "bash .ci/run" for step in job["steps"])
    assert (ROOT / ".ci" / "run").is_file()


def test_hooks_are_the_checks_of_make_check():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    tools = {hook["entry"].split()[0] for repo in hooks["repos"] for hook in repo["hooks"]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy"}
    assert "$(BIN)/ruff check ." in makefile
    assert "$(BIN)/mypy" in makefile
