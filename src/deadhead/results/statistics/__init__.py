"""Numbers in, numbers out: what the papers compute from scores, rankings and measures.

    drop(84.2, 80.0)                                how much is lost, in % of the whole
    ordered({"SVO": [...], "SOV": [...]}, ("SVO", "SOV"))    is there an order, or is it chance?
    sign_test(up, down)                             do more pairs gain than lose?

Plain functions over plain numbers, without torch.
"""

from deadhead.ranking.compare import Correlation, Overlap, overlap, rho, spearman

from .chance import benjamini_hochberg, deviation, holm, sign_test, two_means
from .drops import (
    LayerDifference,
    bottom_minus_top,
    drop,
    group_means,
    grouped,
    interpolate,
    recovery,
    spread,
)
from .gains import (
    Excess,
    SeedComparison,
    beyond_luck,
    compare_with_seeds,
    expected_best,
    family_means,
)
from .layers import (
    THIRDS,
    Evenness,
    by_distance,
    by_layer,
    entropy_change,
    evenness,
    head_changes,
    layer_means,
    removal_effects,
    third_of_layers,
)
from .order import Order, ordered
from .similarity import ranking_rho, similarity, with_distance, with_similarity

__all__ = ["Correlation", "Evenness", "Excess", "LayerDifference", "Order"]
__all__ += ["Overlap", "SeedComparison", "benjamini_hochberg", "beyond_luck", "bottom_minus_top"]
__all__ += ["by_distance", "by_layer", "compare_with_seeds", "deviation"]
__all__ += ["drop", "entropy_change", "evenness", "expected_best", "family_means"]
__all__ += ["group_means", "grouped", "holm", "interpolate"]
__all__ += ["layer_means", "ordered", "overlap"]
__all__ += ["ranking_rho", "recovery", "removal_effects", "rho"]
__all__ += ["sign_test", "similarity", "spearman", "spread", "third_of_layers"]
__all__ += ["THIRDS", "head_changes", "two_means", "with_distance", "with_similarity"]
