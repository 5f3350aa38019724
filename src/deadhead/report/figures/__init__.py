"""The figures of a study, as vega-lite charts.

A kind of figure is one file of this folder: a subclass of `Figure` with its options and its code.
"""

from collections.abc import Mapping

from deadhead.report.spec import Figure

from .cost import Cost
from .curve import Curve
from .ends import Ends
from .epochs import Epochs
from .gains import Gains
from .heads import Heads
from .layers import Layers
from .points import Points
from .recovery import Recovery
from .similarity import Similarity

# Every kind of figure; a new kind is one more word here.
FIGURES: Mapping[str, type[Figure]] = {
    kind.kind: kind
    for kind in (Curve, Heads, Similarity, Points, Ends, Recovery, Layers, Gains, Epochs, Cost)
}
