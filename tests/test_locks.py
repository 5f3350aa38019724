"""What set-up installs is pinned and has hashes: constraints.txt, locks/ and pyproject.toml say the
same.
"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOME = Path(__file__).parents[1]
PINS = [
    line
    for line in (HOME / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def locked():
    """Requirement -> hashes, over all locks."""
    entries: dict[str, list[str]] = {}
    for lock in sorted((HOME / "locks").glob("*.txt")):
        for block in re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").rstrip("\n")):
            if block.startswith("#"):
                continue
            requirement, *hashes = re.split(r" \\\n\s+", block)
            assert requirement not in entries, f"{requirement} stands in two locks"
            entries[requirement] = hashes
    return entries


def test_every_pin_has_hashes_in_one_lock():
    entries = locked()
    assert {str(Requirement(pin)) for pin in PINS} == set(entries)
    for requirement, hashes in entries.items():
        assert hashes, requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", value) for value in hashes), (
            requirement
        )


def test_every_requirement_of_the_project_is_pinned_within_its_bounds():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    named = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for extra in extras for line in extra),
    ]
    pins = {canonicalize_name(pin.name): pin for pin in map(Requirement, PINS)}
    for requirement in map(Requirement, named):
        if requirement.name == "deadhead":
            continue
        version = next(iter(pins[canonicalize_name(requirement.name)].specifier)).version
        assert version in requirement.specifier, requirement
