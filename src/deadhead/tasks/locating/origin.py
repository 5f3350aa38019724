"""Where data comes from, in words: the corpus, its release, and the folder or the hub."""

from pathlib import Path
from typing import NamedTuple

from deadhead.tasks.languages import code_of
from deadhead.tasks.task import split_of

from .folder import release_of

HUB = "hub:"


class Origin(NamedTuple):
    """The corpus of a file or of a set on the hub."""

    corpus: str  # UD_English-EWT, wikiann
    release: str  # Universal Dependencies' (`2.7, by its folder`), or the revision on the hub
    place: str  # the folder that has the corpus, or the repository on the hub

    @property
    def on_hub(self) -> bool:
        return self.place.startswith(HUB)


def origin_of(place: str) -> Origin:
    """Return the origin of a place that `data_files` returns."""
    if place.startswith(HUB):  # hub:REPOSITORY@REVISION:CONFIG:SPLIT
        repository, _, rest = place.partition("@")
        revision, config, _ = rest.split(":")
        name = repository.rpartition("/")[2]
        return Origin(config if name == "universal_dependencies" else name, revision, repository)
    file = Path(place)
    folders = (p for p in file.parents if p.name and not (split_of(p.name) or code_of(p.name)))
    folder = next(folders, file.parent)
    release = release_of(file) if ".conllu" in file.name else ""
    return Origin(folder.name, release, str(folder.parent))
