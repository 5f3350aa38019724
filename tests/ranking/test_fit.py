"""A ranking belongs to models built alike, and is written to a file or not at all."""

from __future__ import annotations

import os
from pathlib import Path

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
def test_a_model_built_otherwise_is_refused(layout: HeadLayout) -> None:
    with pytest.raises(HeadError) as error:
        RANKING.scores_for(layout)
    assert error.value.message.startswith(
        "the ranking is of a model with encoder 3 x 4, this one was built with "
    )
    assert "deadhead rank" in (error.value.hint or "")
    cut = layout.without(list(layout)[-1:])  # not even where every head that is left has a score
    with pytest.raises(HeadError):
        RANKING.scores_for(cut)


def test_a_model_built_alike_is_taken_pruned_or_not() -> None:
    cut = LAYOUT.without(list(LAYOUT)[:5])
    assert RANKING.scores_for(LAYOUT) == RANKING.scores_for(cut) == RANKING.scores
    later = Ranking(
        scores=dict.fromkeys(cut, 1.0), layout=cut, method="gradient"
    )  # a ranking of the pruned model
    assert later.scores_for(cut) == later.scores


@pytest.mark.parametrize("layout", STRANGERS.values(), ids=STRANGERS)
def test_rankings_of_models_built_otherwise_are_not_compared(layout: HeadLayout) -> None:
    other = Ranking(
        scores={head: float(i) for i, head in enumerate(layout)},
        layout=layout,
        method="gradient",
        model="other",
    )
    for compare in (RANKING.spearman, RANKING.overlap):
        with pytest.raises(HeadError) as refused:
            compare(other)
        assert "encoder 3 x 4" in refused.value.message
        assert built(layout) in refused.value.message
    fewer = LAYOUT.without(list(LAYOUT)[:5])
    assert (
        RANKING.spearman(
            Ranking(scores=dict.fromkeys(fewer, 1.0), layout=fewer, method="gradient")
        ).n
        == 7
    )  # the same model, pruned


def test_what_is_no_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(DataError, match="there is a folder") as error:
        RANKING.save(tmp_path / "there")
    assert error.value.hint == f"name a file, for instance {tmp_path / 'there' / 'ranking.json'}"
    assert os.listdir(tmp_path) == ["there"]
    (tmp_path / "note.txt").touch()
    with pytest.raises(DataError, match="could not be written"):
        RANKING.save(tmp_path / "note.txt" / "r.json")


def test_a_ranking_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        DataError, match=r"r\.json could not be written: No space left on device"
    ) as error:
        RANKING.save(tmp_path / "r.json")
    assert error.value.hint == "free some space, or name another file"
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        RANKING.save(tmp_path / "pipe")
        assert os.read(reader, 2**16).startswith(b'{\n "format": 1,')
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
