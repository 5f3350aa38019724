"""A small study for testing the engine: a search with its controls on steps that cost nothing."""

import pytest

SEARCH = """\
about: a search that costs nothing
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: nobody/nothing, source: en, task: pos, targets: [de, zh]}
axes:
  seed: [0, 1]
search: {lowest: 1..4, controls: [seeds, random, highest]}
"""


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Nothing is read from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def search_file(tmp_path):
    file = tmp_path / "search.yaml"
    file.write_text(SEARCH)
    return file
