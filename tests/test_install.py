"""A hint to install an extra names a command that works: for this installation, and with the package that is missing."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import deadhead
from deadhead import version
from deadhead.cli.rank import PACKAGES, PLOTS
from deadhead.errors import MissingExtra

SOURCE = Path(deadhead.__file__).parent
COMPUTED = {
    "cli/rank.py": set(PACKAGES.values()),
    "exports/onnx/export.py": {"onnxruntime", "onnxscript"},
}  # where the package is no constant


def extras():
    """The packages that each extra of pyproject.toml installs."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return {
        extra: {re.match(r"[\w.-]+", requirement).group() for requirement in names}  # type: ignore[union-attr]
        for extra, names in project["optional-dependencies"].items()
    }


def raised():
    """Every MissingExtra in the source: file, packages, extra."""
    result = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "MissingExtra"
            ):
                name, (package, extra) = file.relative_to(SOURCE).as_posix(), node.args[:2]
                assert isinstance(extra, ast.Constant), f"{name}: the extra must be a constant"
                packages = {package.value} if isinstance(package, ast.Constant) else COMPUTED[name]
                result.append((name, packages, extra.value))
    return result


def test_every_hint_installs_what_is_missing():
    assert len(raised()) >= 10
    for file, packages, extra in raised():
        assert packages <= extras()[extra], f"{file}: the extra {extra} does not install {packages}"
    assert {module for names in PLOTS.values() for module in names} == set(PACKAGES)


@pytest.fixture
def elsewhere(monkeypatch):
    """deadhead installed as a package, with this origin on record."""

    def installed(origin):
        text = None if origin is None else json.dumps(origin)
        monkeypatch.setattr(version, "checkout", lambda: None)
        monkeypatch.setattr(
            "importlib.metadata.distribution",
            lambda name: SimpleNamespace(read_text=lambda file: text),
        )

    monkeypatch.setattr("shutil.which", lambda name: str(Path(sys.executable).parent / name))
    return installed


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, 'pip install "deadhead[hub]"'),
        (
            {"url": "file:///home/me/dead%20head", "dir_info": {}},
            'pip install "deadhead[hub] @ file:///home/me/dead%20head"',
        ),
        (
            {"url": "https://h.org/d.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            'pip install "deadhead[hub] @ git+https://h.org/d.git@c0ffee"',
        ),
        (
            {
                "url": "https://h.org/d.git",
                "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0ffee"},
            },
            'pip install "deadhead[hub] @ git+https://h.org/d.git@v1"',
        ),
    ],
)
def test_the_command_fits_how_it_was_installed(elsewhere, origin, expected):
    elsewhere(origin)
    assert MissingExtra("datasets", "hub", "it").hint == expected
    assert MissingExtra("datasets", "hub", "it", "do without").hint == f"{expected}, or do without"


def test_in_a_checkout(tmp_path, monkeypatch):
    home = SOURCE.parents[1]
    monkeypatch.setattr("shutil.which", lambda name: str(Path(sys.executable).parent / name))
    monkeypatch.chdir(home)
    assert version.install_command("hub") == 'pip install -e ".[hub]"'
    monkeypatch.chdir(tmp_path)
    assert version.install_command("hub") == f'pip install -e "{home}[hub]"'
    assert version.checkout(tmp_path / "site-packages" / "deadhead") is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert version.checkout(tmp_path / "src" / "deadhead") is None


def test_pip_of_another_python_is_not_named(monkeypatch):
    for there in (None, "/elsewhere/bin/pip"):
        monkeypatch.setattr("shutil.which", lambda name, there=there: there)
        assert version.install_command("hub").startswith(f"{sys.executable} -m pip install ")
