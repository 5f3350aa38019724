"""The tables of a study: our numbers beside published ones, with spread, count, state and a test.

A kind of table is a subclass of `Table` in a file of this folder, with its options and its code.
"""

from deadhead.registry import Registry
from deadhead.report.spec import Table

TABLES: Registry[type[Table]] = Registry(
    "kind of table",
    __name__,
    {
        "scores": "scores:ScoreTable",
        "drop": "scores:Drop",
        "search": "search:SearchTable",
        "multi-source": "multi_source:MultiSource",
    },
)
USUAL = "scores"  # the kind of a table that names none
