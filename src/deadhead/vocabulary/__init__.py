"""Remove the tokens that some texts do not need from a model and its tokenizer."""

from .tokens import check_tokenizer
from .trim import Trimmed, trim_vocabulary

__all__ = ["Trimmed", "check_tokenizer", "trim_vocabulary"]
