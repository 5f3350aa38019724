"""Nodes, processes and the head of a cluster are killed in the midst: the records are those of a
run on this machine."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import ray
from small_study import WORK, run_free, stable_records
from test_crash import workers_of

from deadhead.studies import load, run
from deadhead.studies.execution import ray_cluster as clusters
from deadhead.studies.store.folder import ClusterLost


@pytest.fixture
def search_file(search_file):
    """A study of one seed: long enough to be struck in the midst of it."""
    search_file.write_text(search_file.read_text().replace("seed: [0, 1]", "seed: [0]"))
    return search_file


@pytest.fixture
def short(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@pytest.fixture
def cluster(short):
    from ray.cluster_utils import Cluster

    machines = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes = [machines.add_node(num_cpus=1), machines.add_node(num_cpus=1)]
    ray.init(address=machines.address, log_to_driver=False, logging_level="ERROR")
    machines.wait_for_nodes()
    yield machines, nodes
    ray.shutdown()
    machines.shutdown()


@pytest.mark.slow
def test_a_node_dies_and_then_the_last_one(search_file, tmp_path, cluster, monkeypatch):
    machines, nodes = cluster
    recipe = load(search_file)
    options: dict[str, Any] = {"executor": "ray", "work": "slow_trivial:work"}
    killed: list[int] = []

    def watch(facts):
        if facts["done"] >= 2 and len(facts["running"]) == len(nodes) and len(killed) < limit:
            killed.append(facts["done"])
            machines.remove_node(nodes.pop(), allow_graceful=False)

    monkeypatch.setattr("deadhead.studies.execution.jobs.EVERY", 0.02)
    monkeypatch.setattr(clusters, "EVERY", 0.02)
    monkeypatch.setattr(clusters, "GONE", 2.0)
    limit = 1
    result = run(recipe, tmp_path / "ray", watch=watch, **options)
    assert killed
    assert killed[0] < len(recipe.trials)  # in the midst of it
    assert (result.left, result.failed) == (0, 0)
    assert stable_records(tmp_path / "ray") == undisturbed(search_file, tmp_path / "here")

    limit = 2
    with pytest.raises(ClusterLost, match="no node of the Ray cluster is left"):
        run(recipe, tmp_path / "again", watch=watch, **options)
    assert not nodes
    before = stable_records(tmp_path / "again")
    assert 2 <= len(before) < len(recipe.trials)
    assert all(record["state"] == "done" for record in before.values())
    assert [node for node in ray.nodes() if node["Alive"]] == [ray.nodes()[0]]  # the head


def test_a_cluster_of_its_own(search_file, tmp_path, short):
    assert not ray.is_initialized()
    result = run(load(search_file), tmp_path / "ray", executor="ray", workers=2, work=WORK)
    assert result.done == result.total
    assert not ray.is_initialized()
    run_free(search_file, tmp_path / "here")
    assert stable_records(tmp_path / "ray") == stable_records(tmp_path / "here")
    assert os.environ.get("RAY_ADDRESS") is None


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def below(process):
    """The processes that a process started, and those they started, with their names."""
    for child in workers_of(process):
        with suppress(OSError):
            yield Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(), child
        yield from below(child)


def run_alone(search_file, folder, **options):
    """Run a small study on a cluster of its own with one process for trials."""
    return run(load(search_file), folder, executor="ray", workers=1, **options)


def undisturbed(search_file, folder):
    run_free(search_file, folder)
    return stable_records(folder)


@pytest.mark.slow
def test_a_process_of_a_trial_dies(search_file, tmp_path, short, monkeypatch):
    monkeypatch.setenv("TRIVIAL_MARKS", str(tmp_path))
    result = run_alone(search_file, tmp_path / "s", work="slow_trivial:strikes_itself")
    assert (result.left, result.failed) == (0, 0)
    (killed,) = result.reports
    assert "its node or process died" in killed
    assert stable_records(tmp_path / "s") == undisturbed(search_file, tmp_path / "here")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet/raylet", "gcs_server"])
def test_a_cluster_that_is_gone_stops_the_study(search_file, tmp_path, short, monkeypatch, name):
    """Not one trial after the other is written off: the study continues when there is a cluster
    again."""
    monkeypatch.setattr(clusters, "HEAD", 1.0)
    monkeypatch.setattr("deadhead.studies.execution.jobs.EVERY", 0.02)
    monkeypatch.setattr(clusters, "EVERY", 0.02)
    killed: list[int] = []

    def watch(facts):
        if facts["done"] >= 2 and facts["running"] and not killed:
            killed.extend(process for command, process in below(os.getpid()) if name in command)
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(ClusterLost, match="Ray") as problem:
        run_alone(search_file, tmp_path / "s", work="slow_trivial:work", watch=watch)
    assert "run the same command" in str(problem.value.hint)
    assert not ray.is_initialized()
    before = stable_records(tmp_path / "s")
    assert len(before) >= 2
    assert all(record["state"] == "done" for record in before.values())
    result = run_free(search_file, tmp_path / "s")
    assert result.ran == result.total - len(before)
    assert stable_records(tmp_path / "s") == undisturbed(search_file, tmp_path / "here")
