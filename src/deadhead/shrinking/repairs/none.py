"""No repair: the model is cut, as `prune` does it."""

from .repair import Repair, refitting_by

NONE = Repair(help="nothing: only cut", plan=refitting_by())
