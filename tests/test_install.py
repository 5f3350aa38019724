"""A hint to install an extra names a command that works: for this installation, and with the
package that is missing.
"""

import ast
import re
import tomllib
from pathlib import Path

import deadhead
from deadhead import version
from deadhead.errors import MissingExtra

SOURCE = Path(deadhead.__file__).parent
# where the package is no constant
COMPUTED = {"exports/onnx/export.py": {"onnxruntime", "onnxscript"}}


def extras():
    """The packages that each extra of pyproject.toml installs."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return {
        extra: {re.match(r"[\w.-]+", requirement).group() for requirement in names}  # type: ignore
        for extra, names in project["optional-dependencies"].items()
    }


def imported():
    """Every import of an optional dependency in the source: file, packages, extra."""
    result = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if name == "errors.py" or not isinstance(node, ast.Call):
                continue
            function = node.func.id if isinstance(node.func, ast.Name) else ""
            if function not in {"MissingExtra", "optional"}:
                continue
            package, extra = node.args[:2]
            if function == "optional" and len(node.args) > 3:  # the module has another name
                package = node.args[3]
            assert isinstance(extra, ast.Constant), f"{name}: the extra must be a constant"
            packages = {package.value} if isinstance(package, ast.Constant) else COMPUTED[name]
            result.append((name, packages, extra.value))
    return result


def test_every_hint_installs_what_is_missing():
    assert len(imported()) >= 10
    for file, packages, extra in imported():
        assert packages <= extras()[extra], f"{file}: the extra {extra} does not install {packages}"


def test_elsewhere_than_in_a_checkout(monkeypatch):
    monkeypatch.setattr(version, "checkout", lambda: None)
    expected = 'pip install "deadhead[hub]"'
    assert MissingExtra("datasets", "hub", "it").hint == expected
    assert MissingExtra("datasets", "hub", "it", "do without").hint == f"{expected}, or do without"


def test_in_a_checkout(tmp_path, monkeypatch):
    home = SOURCE.parents[1]
    monkeypatch.chdir(home)
    assert version.install_command("hub") == 'pip install -e ".[hub]"'
    monkeypatch.chdir(tmp_path)
    assert version.install_command("hub") == f'pip install -e "{home}[hub]"'
    assert version.checkout(tmp_path / "site-packages" / "deadhead") is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert version.checkout(tmp_path / "src" / "deadhead") is None
