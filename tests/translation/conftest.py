"""The toy pair, its vocabulary, and a tiny Transformer that has learnt some of it; made once."""

import copy

import pytest
from toy_pair import TASK, TINY, TRAINING, pairs

from deadhead.tasks import Row, dataset, encode
from deadhead.training import finetune
from deadhead.translation import build, vocabulary


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def tokenizer():
    return vocabulary((text for pair in pairs(200, 0) for text in pair), 320)


@pytest.fixture(scope="session")
def toy(tokenizer, cache):
    def built(n=60, seed=0):
        return encode(
            dataset(TASK, "en-xx", "train", [Row(pair) for pair in pairs(n, seed)]),
            tokenizer,
            cache=cache,
        )

    return built


@pytest.fixture(scope="session")
def trained(tokenizer, toy):
    """Trained enough for translations that differ; take a copy before changing it."""
    model = build(TINY, tokenizer)
    history = finetune(model, toy(160), TRAINING, progress=False)
    assert history.losses[-1] < history.losses[0] / 1.5
    return model


@pytest.fixture
def model(trained):
    return copy.deepcopy(trained)
