"""What a finished study says: scores, searches, rankings, measures and statistics.

study = Study.open("my-study")
study.scores        one `Score` for each trained model and language
study.searches      one `Search` for each lowest-k search and language
study.rankings      the rankings of heads; `study.measures`: what was measured on heads
frame("my-study")   the records as a data frame
"""

from .frame import frame
from .means import Mean
from .model import Arm, Measurement, Merged, Pick, RankedHeads, Score, Search
from .records import Opened
from .study import Study

__all__ = ["Arm", "Mean", "Measurement", "Merged", "Opened", "Pick", "RankedHeads"]
__all__ += ["Score", "Search", "Study", "frame"]
