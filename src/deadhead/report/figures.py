"""The figures of a study, as vega-lite specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..studies.records import Record
from .cells import Study


def study_figures(study: Study, records: Mapping[str, Record]) -> list[dict[str, Any]]:
    return []
