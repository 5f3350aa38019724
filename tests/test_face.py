"""The public face: what a guide imports from `deadhead`, and what is documented as internal."""

import importlib
import re
from pathlib import Path

import pytest

import deadhead

SOURCE = Path(deadhead.__file__).parent
ROAD = ["load", "discover", "gated", "prune", "save", "rank", "finetune", "evaluate",
        "load_data", "encode"]  # fmt: skip


def test_the_names_of_the_guides_are_functions_of_the_package():
    from deadhead import (  # noqa: F401  # noqa: F401
        discover,
        encode,
        evaluate,
        finetune,
        gated,
        load,
        load_data,
        prune,
        rank,
        save,
    )

    for name in ROAD:
        assert callable(getattr(deadhead, name)), name


def test_every_public_name_can_be_used_and_is_listed():
    assert set(ROAD) < set(deadhead.__all__) <= set(dir(deadhead))
    assert len(set(deadhead.__all__)) == len(deadhead.__all__)
    for name in deadhead.__all__:
        assert getattr(deadhead, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'heads_of'"):
        _ = deadhead.heads_of


def test_every_module_is_documented_as_public_or_internal():
    """The docstring of the package names each module and folder, once."""
    named = re.findall(r"`(\w+)[\w.]*`", deadhead.__doc__ or "")
    modules = {path.stem for path in SOURCE.glob("*.py")} | {
        path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()
    }
    assert set(named) - {"__all__"} == modules - {"__init__", "__main__"}


def test_the_packages_called_public_say_what_they_export():
    public = (deadhead.__doc__ or "").partition("Everything else")[0]
    for name in re.findall(r"`([\w.]+)`", public):
        module = importlib.import_module(f"deadhead.{name}") if name != "__all__" else deadhead
        assert module.__doc__
        if hasattr(module, "__path__"):
            exported = module.__all__
            assert exported
            assert all(hasattr(module, item) for item in exported), name


def test_types_are_shipped():
    assert (SOURCE / "py.typed").exists()
