"""What tests of this folder share: the name of the free steps, and records to compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORK = "trivial:work"


def stable_records(folder: Path) -> dict[str, Any]:
    """All records of a study, without the part that depends on time and order."""
    results = {}
    for file in (folder / "records").iterdir():
        assert file.suffix == ".json", f"{file} was left behind"
        record = json.loads(file.read_text())
        del record["cost"], record["digest"]
        results[file.stem] = record
    return results
