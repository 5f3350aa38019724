"""What a study found, in up to three plain sentences with their numbers."""

from __future__ import annotations

from .cells import Study


def findings(study: Study) -> list[str]:
    return []
