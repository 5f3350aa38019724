"""Write locks/*.txt: what set-up installs, pinned as in constraints.txt, with hashes of the files.

    .venv/bin/python tools/lock.py

Run it after changing constraints.txt, where `make setup` has ended: what the demo needs is read
from what is installed. The hashes come from wherever pip is set to look, for all platforms and
versions of Python listed below, so one lock serves all machines. A file without a published hash,
such as a build of torch in a folder of this machine, is hashed here; its hash is added to those the
lock already has, so that the builds of several machines come together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from pip._internal.commands import create_command
from pip._internal.index import package_finder
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.tags import Tag
from pip._vendor.packaging.utils import (
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

HOME = Path(__file__).parents[1]
BUILD = (
    "hatchling",
    "editables",
    "setuptools",
    "setuptools-scm",
)  # builds deadhead itself and the packages without a wheel
CUDA = ("cuda-", "nvidia-", "triton")  # what torch needs besides, unless it is a build for the CPU
OLDEST, NEWEST = 11, 14  # versions 3.x of Python
MACHINES = re.compile(r"any|(manylinux|musllinux).*_(x86_64|aarch64)|macosx_.*|win_(amd64|arm64)")
COMMENT = "# Written by tools/lock.py: {}. Do not edit."
LOCKS = {
    "torch": "torch alone, since some machines bring a build of their own",
    "demo": "what the demo needs, and what builds packages",
    "dev": "what development needs besides",
    "cuda": "what torch needs besides, unless it is a build for the CPU",
}


def main() -> None:
    pins = list(read_pins())
    demo = {name for root in ("deadhead[report]", *BUILD) for name in closure(Requirement(root))}
    members: dict[str, list[Requirement]] = {lock: [] for lock in LOCKS}
    for pin in pins:
        members[lock_of(canonicalize_name(pin.name), demo)].append(pin)
    with listing() as files_of:
        texts = {
            lock: "".join(entry(pin, files_of(pin), lock) for pin in members[lock])
            for lock in LOCKS
        }
    for lock, text in texts.items():
        path(lock).write_text(f"{COMMENT.format(LOCKS[lock])}\n{text}", encoding="utf-8")
        print(
            f"{path(lock).relative_to(HOME)}: {len(members[lock])} packages, "
            f"{text.count('--hash')} hashes"
        )


def path(lock: str) -> Path:
    return HOME / "locks" / f"{lock}.txt"


def read_pins() -> Iterator[Requirement]:
    for line in (HOME / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield Requirement(line)


def lock_of(name: str, demo: set[str]) -> str:
    if name == "torch":
        return "torch"
    if name.startswith(CUDA):
        return "cuda"
    return "demo" if name in demo else "dev"


def closure(requested: Requirement) -> set[str]:
    """The names of all packages that a requirement brings, as far as they are installed here."""
    names: set[str] = set()
    seen: set[str] = set()
    todo = [requested]
    while todo:
        requirement = todo.pop()
        name = str(canonicalize_name(requirement.name))
        names.add(name)
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            below = [Requirement(text) for text in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        extras = requirement.extras or {""}
        todo += [
            b
            for b in below
            if b.marker is None or any(b.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return names


class listing:
    """Asks pip's own finder for all files of a version, those for other machines included."""

    def __enter__(self) -> Any:
        command = create_command("download")
        options, _ = command.parse_args([])
        self._context = command.main_context()
        self._context.__enter__()
        self._links: dict[str, list[Any]] = {}
        self._name = ""
        self._evaluate = package_finder.LinkEvaluator.evaluate_link
        package_finder.LinkEvaluator.evaluate_link = self._record(
            self._evaluate
        )  # pip itself drops those of other machines
        self._finder = command._build_package_finder(options, command.get_default_session(options))
        return self._files_of

    def __exit__(self, *problem: Any) -> None:
        package_finder.LinkEvaluator.evaluate_link = self._evaluate
        self._context.__exit__(*problem)

    def _record(self, evaluate: Any) -> Any:
        def recorded(evaluator: Any, link: Any) -> Any:
            self._links[self._name].append(link)
            return evaluate(evaluator, link)

        return recorded

    def _files_of(self, pin: Requirement) -> list[Any]:
        self._name = pin.name
        if pin.name not in self._links:
            self._links[pin.name] = []
            self._finder.find_all_candidates(pin.name)
        wheels, archives = [], []
        for link in self._links[pin.name]:
            if link.filename.endswith(".whl"):
                name, version, _, tags = parse_wheel_filename(link.filename)
                if (
                    name == canonicalize_name(pin.name)
                    and version in pin.specifier
                    and any(map(is_read, tags))
                ):
                    wheels.append(link)
            elif link.filename.endswith((".tar.gz", ".zip")) and is_archive(link.filename, pin):
                archives.append(link)
        return wheels or archives  # nothing is built from source where a wheel exists


def is_archive(filename: str, pin: Requirement) -> bool:
    try:
        name, version = parse_sdist_filename(filename)
    except ValueError:
        return False
    return name == canonicalize_name(pin.name) and version in pin.specifier


def is_read(tag: Tag) -> bool:
    """Whether a Python that deadhead supports, on a usual machine, installs such a wheel."""
    if not MACHINES.fullmatch(tag.platform) or tag.abi.endswith("t"):
        return False
    if tag.interpreter in ("py3", "py2"):
        return tag.interpreter == "py3"
    match = re.fullmatch(r"(cp|py)3(\d+)", tag.interpreter)
    if match is None:
        return False
    minor = int(match[2])
    return minor <= NEWEST and (minor >= OLDEST or tag.abi in ("abi3", "none"))


def entry(pin: Requirement, files: Iterable[Any], lock: str) -> str:
    """The lines of one package."""
    published = {link.hash for link in files if link.hash_name == "sha256"}
    if not published:
        raise SystemExit(f"pip lists no hash for {pin}: look at its version in constraints.txt")
    own = {
        digest(Path(link.file_path))
        for link in files
        if link.hash_name != "sha256" and link.scheme == "file"
    }
    if lock == "torch" and path(lock).exists():
        own |= hashes_in(path(lock), str(pin))
    return (
        f"{pin}"
        + "".join(f" \\\n    --hash=sha256:{value}" for value in sorted(published | own))
        + "\n"
    )


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hashes_in(file: Path, pin: str) -> set[str]:
    for block in re.split(r"\n(?=\S)", file.read_text(encoding="utf-8")):
        if block.split(" \\")[0] == pin:
            return set(re.findall(r"sha256:([0-9a-f]{64})", block))
    return set()


if __name__ == "__main__":
    main()
