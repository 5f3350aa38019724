"""Every built-in recipe, run to its end, has what the claims it lists are judged by."""

import pytest
from whole_studies import complete

from deadhead.papers.claims import check, named
from deadhead.papers.contributions import claims_heads
from deadhead.studies import built_in, load

# the grid searches list no claims, and a paper's other recipes all do
OF_PAPERS = [name for name in built_in() if "/" in name and not name.endswith("/grid")]


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_whole_run_is_enough_for_every_claim_of_its_recipe(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        claims_heads,
        "distances",
        lambda one, other, kinds: dict.fromkeys(
            kinds, 0.01 * len({*one, *other}) + 0.001 * ord(other[0])
        ),
    )
    ids = {claim.id for entry in load(name).data["claims"] for claim in named(entry)}
    verdicts = {v.id: v for v in check(complete(name, tmp_path / "s"))}
    assert ids <= set(verdicts)
    assert not [verdicts[claim] for claim in sorted(ids) if not verdicts[claim].judged]
