"""What several tests of this room need: the steps that cost nothing by name, and records to compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORK = "trivial:work"


def told(folder: Path) -> dict[str, Any]:
    """All records of a study, without what depends on the clock and on who was first."""
    results = {}
    for file in (folder / "records").iterdir():
        assert file.suffix == ".json", f"{file} was left behind"
        record = json.loads(file.read_text())
        record.pop("cost")
        results[file.stem] = record
    return results
