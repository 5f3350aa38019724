"""The site builds without a warning, and what it shows comes from nowhere else."""

import os
import re
import subprocess
import sys

import pytest
from doc_blocks import ROOT

FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//"""
    r"""|<link[^>]*\shref=["']?(?:https?:)?//[^>]*stylesheet"""
)


@pytest.mark.slow
def test_site(tmp_path):
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    line = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(line, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        assert not FETCHED.search(page.read_text(encoding="utf-8")), page


def test_what_is_fetched_is_noticed():
    assert FETCHED.search('<script src="https://unpkg.com/x.js"></script>')
    assert FETCHED.search('<link href="//fonts.example/css" rel="stylesheet">')
    assert not FETCHED.search(
        '<a href="https://example.org">x</a><script src="assets/x.js"></script>'
    )


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=lambda p: p.stem
)
def test_pictures_are_readable_in_the_dark(picture):
    text = picture.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert '<rect class="page"' in text  # its own background, whatever it lies on
    assert "<title>" in text
