"""Encoded data for all training tests, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_tasks

from deadhead.tasks import Encoded


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def foxes(cache: Path) -> Encoded:
    return small_tasks.classify(cache)


@pytest.fixture(scope="session")
def letters(cache: Path) -> Encoded:
    return small_tasks.tag(cache)


@pytest.fixture(scope="session")
def pairs(cache: Path) -> Encoded:
    return small_tasks.translate(cache)
