"""Figures and tables as files: SVG, PNG and PDF of every figure, CSV, Markdown and LaTeX of every table."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import MissingExtra
from deadhead.report.figures.build import study_figures
from deadhead.report.tables.build import study_tables
from deadhead.report.tables.text import WRITERS
from deadhead.results import Study
from deadhead.studies.store.folder import StudyError

from .files import put

VEGALITE = "6.4"
SCALE = 2.0  # pixels of a PNG per point
# How figures look on paper; on the page its own colours take this place.
PRINT: Mapping[str, Any] = {
    "background": "white",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "#e6e6e6",
        "domainColor": "#555555",
    },
    "legend": {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 240,
    },
    "header": {"labelFontSize": 12},
    "title": {"fontSize": 13, "anchor": "start"},
}


def export(folder: str | Path, out: str | Path) -> list[Path]:
    """Write every figure and table of a study into a folder; the files that were written."""
    study = Study.open(folder)
    home = Path(out)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StudyError(
            f"{home} is not a folder to write to: {problem.strerror}.",
            "name another with --figures",
        ) from None
    return [
        *_tables(study_tables(study), home),
        *_figures(study_figures(study, study.records), home),
    ]


def _tables(tables: list[dict[str, Any]], home: Path) -> Iterator[Path]:
    for table in tables:
        for ending, write in WRITERS.items():
            yield put(home / f"{table['id']}.{ending}", write(table).encode("utf-8"))


def _figures(figures: list[dict[str, Any]], home: Path) -> Iterator[Path]:
    if not figures:
        return
    drawers = _drawers()
    for figure in figures:
        spec = {**copy.deepcopy(figure["spec"]), "config": PRINT}
        for ending, draw in drawers.items():
            made = draw(spec)
            yield put(
                home / f"{figure['id']}.{ending}",
                made.encode("utf-8") if isinstance(made, str) else made,
            )


def _drawers() -> dict[str, Callable[[dict[str, Any]], str | bytes]]:
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra("vl-convert-python", "report", "figures as files") from None
    return {
        "svg": lambda spec: str(vl_convert.vegalite_to_svg(spec, vl_version=VEGALITE)),
        "png": lambda spec: bytes(
            vl_convert.vegalite_to_png(spec, vl_version=VEGALITE, scale=SCALE)
        ),
        "pdf": lambda spec: bytes(vl_convert.vegalite_to_pdf(spec, vl_version=VEGALITE)),
    }
