"""The tables of a study: our numbers beside published ones, with spread, count, state and a test.

A kind of table is one file of this folder: a subclass of `Table` with its options and its code.
"""

from collections.abc import Mapping

from deadhead.report.spec import Table

from .drop import Drop
from .multi_source import MultiSource
from .scores import Scores
from .search import SearchTable

# Every kind of table; a new kind is one more word here.
TABLES: Mapping[str, type[Table]] = {
    kind.kind: kind for kind in (Scores, Drop, SearchTable, MultiSource)
}
USUAL = Scores.kind  # the kind of a table that names none
