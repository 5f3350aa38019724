"""Room 5: a study to look at. Records become tables, figures, findings and one page; no torch is loaded.

    content("my-study")      all that the page shows, as plain data
    tables("my-study")       the tables of its recipe, ours beside published
    export("my-study", dir)  figures as SVG, PNG and PDF, tables as CSV, Markdown and LaTeX

It can be read while the study still runs: what is missing or failed is marked as such.
"""

from __future__ import annotations

from .content import content
from .tables import tables

__all__ = ["content", "tables"]
