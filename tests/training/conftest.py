"""Encoded data for all training tests, made once."""

import pytest
import small_tasks


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def foxes(cache):
    return small_tasks.classify(cache)


@pytest.fixture(scope="session")
def letters(cache):
    return small_tasks.tag(cache)


@pytest.fixture(scope="session")
def pairs(cache):
    return small_tasks.translate(cache)
