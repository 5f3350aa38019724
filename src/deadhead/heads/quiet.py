"""Hold back what transformers and the hub print while models are read and written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back the log lines and progress bars of transformers, and those of the hub, which tells of every try."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, bars, hubs = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        hub.get_verbosity(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hubs)
        if bars:
            logging.enable_progress_bar()
