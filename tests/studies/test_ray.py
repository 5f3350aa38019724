"""A cluster of two nodes, one of which is killed in the midst: the records are those of a run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray
from small_study import WORK, told

from deadhead.studies import load, run

pytestmark = pytest.mark.slow


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@pytest.fixture
def cluster(short: None) -> Any:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    made.wait_for_nodes()
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def test_a_node_dies(search_file: Path, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, nodes = cluster
    recipe = load(search_file)
    killed: list[int] = []

    def watch(facts: dict[str, Any]) -> None:
        if facts["done"] >= 5 and len(facts["running"]) == 2 and not killed:
            killed.append(facts["done"])
            made.remove_node(nodes[0], allow_graceful=False)

    monkeypatch.setattr("deadhead.studies.jobs.EVERY", 0.02)
    result = run(recipe, tmp_path / "ray", executor="ray", work="slow_trivial:work", watch=watch)
    assert killed
    assert killed[0] < len(recipe.trials)  # in the midst of it
    assert (result.left, result.failed) == (0, 0)
    run(recipe, tmp_path / "here", executor="serial", work=WORK)
    assert told(tmp_path / "ray") == told(tmp_path / "here")
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2  # the head and the one that is left


def test_a_cluster_of_its_own(search_file: Path, tmp_path: Path, short: None) -> None:
    assert not ray.is_initialized()
    result = run(load(search_file), tmp_path / "ray", executor="ray", workers=2, work=WORK)
    assert result.done == result.total
    assert not ray.is_initialized()
    run(load(search_file), tmp_path / "here", executor="serial", work=WORK)
    assert told(tmp_path / "ray") == told(tmp_path / "here")
    assert os.environ.get("RAY_ADDRESS") is None
