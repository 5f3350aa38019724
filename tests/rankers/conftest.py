"""Small models and batches that the tests of this room share."""

import copy

import pytest
from ranker_cases import KINDS, make_case


@pytest.fixture(scope="session")
def cases():
    return {kind: make_case(kind) for kind in KINDS}


@pytest.fixture
def case(cases):
    """A fresh copy of the case of a kind."""
    return lambda kind: copy.deepcopy(cases[kind])
