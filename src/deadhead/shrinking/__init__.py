"""Make a model smaller without training: choose heads and neurons, remove them, refit the rest.

Importing this package loads no torch, so that the help can list the methods.
"""

from .allocate import Budget, Curve, Place, allocate, removal, units_of
from .choose import AUTO, CHOOSERS, METHODS, Choice, check_method, choose
from .chooser import Chooser
from .target import COMPENSATIONS, check_compensation, read_targets

__all__ = ["AUTO", "CHOOSERS", "METHODS", "Budget", "Choice", "Chooser", "Curve", "Place"]
__all__ += ["COMPENSATIONS", "allocate", "check_compensation", "check_method", "choose"]
__all__ += ["read_targets", "removal", "units_of"]
