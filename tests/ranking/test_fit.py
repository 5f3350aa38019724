"""A ranking belongs to models built alike, and is written to a file or not at all."""

import os

import pytest

from deadhead.errors import DataError, HeadError
from deadhead.layout import HeadLayout
from deadhead.ranking import Ranking, built

LAYOUT = HeadLayout.grid(encoder=(3, 4))
RANKING = Ranking(
    scores={head: float(i) for i, head in enumerate(LAYOUT)}, layout=LAYOUT, method="gradient"
)
STRANGERS = {
    "fewer layers": HeadLayout.grid(encoder=(2, 4)),
    "fewer heads": HeadLayout.grid(encoder=(3, 2)),
    "more layers": HeadLayout.grid(encoder=(4, 4)),
    "more heads": HeadLayout.grid(encoder=(3, 6)),
    "another block": HeadLayout.grid(decoder=(3, 4)),
    "one block more": HeadLayout.grid(encoder=(3, 4), cross=(3, 4)),
}


@pytest.mark.parametrize("layout", STRANGERS.values(), ids=STRANGERS)
def test_a_model_built_otherwise_is_refused(layout):
    cut = layout.without(list(layout)[-1:])  # not even where every head that is there has a score
    other = Ranking(scores=dict.fromkeys(layout, 1.0), layout=layout, method="gradient")
    for refused in (
        lambda: RANKING.scores_for(layout),
        lambda: RANKING.scores_for(cut),
        lambda: RANKING.spearman(other),
        lambda: RANKING.overlap(other),
    ):
        with pytest.raises(HeadError) as error:
            refused()
        assert "encoder 3 x 4" in error.value.message
        assert built(layout) in error.value.message


def test_a_model_built_alike_is_taken_pruned_or_not():
    cut = LAYOUT.without(list(LAYOUT)[:5])
    assert RANKING.scores_for(LAYOUT) == RANKING.scores_for(cut) == RANKING.scores
    later = Ranking(scores=dict.fromkeys(cut, 1.0), layout=cut, method="gradient")
    assert later.scores_for(cut) == later.scores
    assert RANKING.spearman(later).n == 7


def test_a_ranking_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="is a folder") as error:
        RANKING.save(tmp_path)
    assert error.value.hint == f"name a file, for instance {tmp_path / 'ranking.json'}"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        DataError, match=r"r\.json could not be written: No space left on device"
    ) as error:
        RANKING.save(tmp_path / "r.json")
    assert error.value.hint == "free some space, or name another file"
    assert os.listdir(tmp_path) == []
