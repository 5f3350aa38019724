"""Numbers in, numbers out: what the papers compute from the scores, rankings and measures of a study.

    drop(84.2, 80.0)                                how much is lost, in % of what there was
    ordered({"SVO": [...], "SOV": [...]}, ("SVO", "SOV"))    is there an order, and could it be chance?
    improved(gains)                                 how many pairs gain, with a sign test

Plain functions over plain numbers, without torch. Where an analysis belongs to a figure, a function
that ends in `_rows` gives what is to be drawn, one dict for each mark.
"""

from deadhead.results.statistics.chance import (
    Correlation,
    benjamini_hochberg,
    holm,
    sign_test,
    spearman,
    two_means,
)
from deadhead.results.statistics.drops import (
    D,
    d,
    d_rows,
    drop,
    drop_rows,
    group_means,
    group_rows,
    grouped,
    interpolate,
    recovery,
    recovery_rows,
    spread,
)
from deadhead.results.statistics.gains import (
    Counted,
    Excess,
    Luck,
    beyond_luck,
    expected_best,
    family_means,
    improved,
    luck,
)
from deadhead.results.statistics.layers import (
    Even,
    by_distance,
    by_layer,
    entropy_change,
    even,
    head_rows,
    layer_means,
    layer_rows,
    points_rows,
    third,
)
from deadhead.results.statistics.order import Order, ordered
from deadhead.results.statistics.similarity import (
    Overlap,
    correlation_rows,
    overlap,
    similarity,
    similarity_rows,
    with_distance,
    with_similarity,
)

__all__ = [
    "Correlation",
    "Counted",
    "D",
    "Even",
    "Excess",
    "Luck",
    "Order",
    "Overlap",
    "benjamini_hochberg",
    "beyond_luck",
    "by_distance",
    "by_layer",
    "correlation_rows",
    "d",
    "d_rows",
    "drop",
    "drop_rows",
    "entropy_change",
    "even",
    "expected_best",
    "family_means",
    "group_means",
    "group_rows",
    "grouped",
    "head_rows",
    "holm",
    "improved",
    "interpolate",
    "layer_means",
    "layer_rows",
    "luck",
    "ordered",
    "overlap",
    "points_rows",
    "recovery",
    "recovery_rows",
    "sign_test",
    "similarity",
    "similarity_rows",
    "spearman",
    "spread",
    "third",
    "two_means",
    "with_distance",
    "with_similarity",
]
