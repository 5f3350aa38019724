"""An old name works for one release, says the new one, and is reported once per line."""

import subprocess
import sys
import warnings

import pytest

from deadhead import errors
from deadhead.errors import Deprecation, deprecated, moved
from deadhead.version import __version__


def shrink(*, macs=None):
    """A function with an old name."""
    if macs is not None:
        deprecated("shrink(macs=...)", "shrink(keep_macs=...)")


def test_says_the_new_name_and_how_long_the_old_one_lasts():
    with pytest.warns(Deprecation) as caught:
        shrink(macs="50%")
    (warning,) = caught
    assert str(warning.message) == (
        "shrink(macs=...) is now shrink(keep_macs=...); the old name works until deadhead "
        f"{errors.NEXT}."
    )
    assert warning.filename == __file__  # the caller, not the library


def test_says_nothing_for_the_new_name():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shrink()


def test_is_shown_once_for_each_line_without_any_filter():
    code = (
        "from deadhead.errors import deprecated\n"
        "def old():\n    deprecated('a', 'b')\n"
        "for _ in range(3):\n    old()\n"
        "old()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("a is now b") == 2


def test_the_next_release_is_after_this_one():
    assert [int(n) for n in errors.NEXT.split(".")] > [int(n) for n in __version__.split(".")[:2]]


def test_a_moved_name_is_found_at_its_new_place():
    find = moved("deadhead.old", {"Head": "deadhead.layout.Head"})
    with pytest.warns(Deprecation, match=r"deadhead\.old\.Head is now deadhead\.layout\.Head;"):
        head = find("Head")
    from deadhead.layout import Head

    assert head is Head
    with pytest.raises(AttributeError, match=r"'deadhead\.old' has no attribute 'Tail'"):
        find("Tail")
