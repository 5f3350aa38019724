"""What a finished study says: scores, searches, rankings, measures and statistics."""

from .frame import frame
from .search import arms

__all__ = ["arms", "frame"]
