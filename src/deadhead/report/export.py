"""Figures and tables as files: SVG, PNG and PDF of figures, CSV and LaTeX of tables."""

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from deadhead.errors import optional
from deadhead.results import Study
from deadhead.studies.store.folder import StudyError, put

from .figures.build import study_figures
from .tables.build import study_tables
from .tables.text import WRITERS

VEGALITE = "6.4"
SCALE = 2.0  # pixels of a PNG per point
SMALL = {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
# How figures look on paper; on the page its own colours replace this.
PRINT: Mapping[str, Any] = {
    "background": "white",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {**SMALL, "gridColor": "#e6e6e6", "domainColor": "#555555"},
    "legend": {**SMALL, "labelLimit": 240},
    "header": {"labelFontSize": 12},
    "title": {"fontSize": 13, "anchor": "start"},
}
# The font of a browser may be a sixth wider than the one that measures the text of an SVG here
# (DejaVu Sans is), and a label of a legend has up to 240 points, a tilted one below 140.
ROOM = {"left": 10, "top": 5, "right": 50, "bottom": 20}


def export(folder: str | Path, out: str | Path) -> list[Path]:
    """Write every figure and table of a study into a folder; return the files."""
    study, target = Study.open(folder), Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StudyError(
            f"cannot write to the folder {target}: {problem.strerror}.",
            "name another folder with --figures",
        ) from None
    figures = study_figures(study)
    files = [
        (f"{table['id']}.{suffix}", write(table).encode("utf-8"))
        for table in study_tables(study)
        for suffix, write in WRITERS.items()
    ]
    if figures:
        files += _figures(figures)
    for name, content in files:
        put(target / name, partial(Path.write_bytes, data=content))
    return [target / name for name, _ in files]


def _figures(figures: list[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
    drawers = _drawers()
    for figure in figures:
        chart = {**copy.deepcopy(figure["spec"]), "config": PRINT}
        for suffix, draw in drawers.items():
            image = draw(chart)
            content = image.encode("utf-8") if isinstance(image, str) else image
            yield f"{figure['id']}.{suffix}", content


def _drawers() -> dict[str, Callable[[dict[str, Any]], str | bytes]]:
    vl = optional("vl_convert", "report", "figures as files", "vl-convert-python")
    return {
        "svg": lambda chart: str(
            vl.vegalite_to_svg({**chart, "padding": ROOM}, vl_version=VEGALITE)
        ),
        "png": lambda chart: bytes(vl.vegalite_to_png(chart, vl_version=VEGALITE, scale=SCALE)),
        "pdf": lambda chart: bytes(vl.vegalite_to_pdf(chart, vl_version=VEGALITE)),
    }
