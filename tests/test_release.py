"""The wheel and the sdist hold all of the package and run where only the wheel is installed."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import deadhead

HOME = Path(__file__).parents[1]
SOURCE = HOME / "src"
DATA = {".csv", ".yaml", ".json", ".xz", ".safetensors", ".css", ".js", ".html"}
WITHOUT = ("PYTHONPATH", "PYTHONHOME")  # an environment variable must not find deadhead


def run(*words, cwd):
    env = {name: value for name, value in os.environ.items() if name not in WITHOUT}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {
            i.filename: i.file_size for i in archive.infolist() if "dist-info" not in i.filename
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a wheel and an sdist, built offline."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=HOME)
    return out


def only(folder, pattern):
    (file,) = folder.glob(pattern)
    assert f"deadhead-{deadhead.__version__}" in file.name
    return file


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(built):
    package = {
        path.relative_to(SOURCE).as_posix(): path.stat().st_size
        for path in (SOURCE / "deadhead").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files_of(only(built, "*.whl")) == package
    assert {Path(name).suffix for name in package} >= DATA
    assert "deadhead/py.typed" in package


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    assert files_of(only(tmp_path, "*.whl")) == files_of(only(built, "*.whl"))


@pytest.mark.slow
def test_the_wheel_runs_where_nothing_else_of_deadhead_is(built, tmp_path):
    """Its dependencies are those of this environment, whose own deadhead is out of reach."""
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    libraries = sysconfig.get_path("purelib")
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", program, cwd=tmp_path).strip())
    (site / "dependencies.pth").write_text(f"{libraries}\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    run(*pip, only(built, "*.whl"), cwd=tmp_path)
    program = "import deadhead; print(deadhead.__file__)"
    assert Path(run(python, "-c", program, cwd=tmp_path).strip()).is_relative_to(site)
    command = python.with_name("deadhead")
    assert run(command, "--version", cwd=tmp_path) == f"deadhead {deadhead.__version__}\n"
    assert "demo" in run(command, "recipes", cwd=tmp_path)
    program = "from deadhead.world import MODELS; print(MODELS / 'encoder')"
    model = run(python, "-c", program, cwd=tmp_path).strip()
    assert "40 heads" in run(command, "heads", model, cwd=tmp_path)
