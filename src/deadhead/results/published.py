"""The published numbers that the tables of a recipe name."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from deadhead.papers import published_files

from .cells import as_dict

Rows = list[dict[str, str]]


def published_rows(description: Mapping[str, Any]) -> dict[str, Rows]:
    """File name -> rows: as the study kept the file, else from the built-in recipe of its name."""
    tables = as_dict(description.get("recipe")).get("tables") or []
    kept = as_dict(description.get("published"))
    files: dict[str, Rows] = {}
    for table in tables if isinstance(tables, list) else []:
        name = table.get("published") if isinstance(table, dict) else None
        if isinstance(name, str) and name not in files:
            text = kept.get(name) or _built_in(str(description.get("name", "")), name)
            if text:
                files[name] = list(csv.DictReader(io.StringIO(text)))
    return files


def _built_in(recipe: str, file: str) -> str | None:
    """The text of the table that the paper of a built-in recipe prints."""
    printed = published_files().get(f"{recipe.partition('/')[0]}/{file}")
    return None if printed is None else printed.read_text(encoding="utf-8")
