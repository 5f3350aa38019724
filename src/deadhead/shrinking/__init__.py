"""Make a model smaller without training: choose heads and neurons, remove them, refit the rest.

Importing this package loads no torch, so that the help can list the methods.
"""

from .allocate import Budget, Curve, Place, allocate, removal, units_of
from .choose import AUTO, CHOOSERS, METHODS, Choice, check_method, choose
from .chooser import Chooser

__all__ = ["AUTO", "CHOOSERS", "METHODS", "Budget", "Choice", "Chooser", "Curve", "Place"]
__all__ += ["allocate", "check_method", "choose", "removal", "units_of"]
