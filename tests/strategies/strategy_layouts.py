"""Layouts of the papers' models, and what tests of strategies draw from."""

from hypothesis import settings
from hypothesis import strategies as st

from deadhead.layout import HeadLayout

settings.register_profile("untimed", deadline=None)  # a busy machine is no bug
settings.load_profile("untimed")

BERT = HeadLayout.grid(encoder=(12, 12))
# Its blocks are not in the papers' order, as in real models.
TRANSFORMER = HeadLayout.grid(encoder=(6, 8), decoder=(6, 8), cross=(6, 8))

seeds = st.integers(0, 10_000) | st.text(max_size=5)
percents = st.integers(0, 100) | st.floats(0, 100)


def kept_in(layout, removed):
    """Heads kept, block by block and layer by layer."""
    remaining = layout.without(removed)
    return {block: [len(a.kept) for a in remaining.of(block)] for block in remaining.blocks}
