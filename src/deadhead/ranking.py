from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Ranking:
    scores: Any
    layout: Any
    method: Any
    options: Any
    model: Any
    data: Any
    seed: Any
    versions: Any
    raw: Any = None
    details: Any = None
