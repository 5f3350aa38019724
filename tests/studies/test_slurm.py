"""examples/slurm.sh, to the end of a small study, on two nodes that are networks of their own on
this machine.

Real are: the script, Ray's launcher, a head and a worker with addresses, processes and network
apart, the wire
between them, and the trials. Slurm is not: `srun` and `scontrol` stand in, both nodes share one
disk and
one machine, and nothing is tested of queues, limits of time, GPUs or a scheduler that kills.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from networks import APART, can_be_apart
from small_study import stable_records

from deadhead.studies import load, run

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "examples" / "slurm.sh"
SMALL = ["data.examples=8", "targets=[en]", "remove=[none, {random_k: 4}]"]
SMALL += ["finetune={epochs: 1, scored: none}"]


@pytest.mark.slow
@pytest.mark.skipif(not can_be_apart(), reason="this machine does not let us make networks")
def test_two_nodes(tmp_path):
    tools = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(
        prefix="dh", dir="/tmp"
    ) as short:  # Ray's sockets have long names
        environ = {
            **os.environ,
            "PATH": os.pathsep.join([str(HERE / "slurm"), str(tools), os.environ["PATH"]]),
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_CPUS_PER_TASK": "1",
            "RAY_TMPDIR": short,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            "RAY_raylet_start_wait_time_s": "120",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # how soon a worker sees the end
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        words = [word for text in SMALL for word in ("--set", text)]
        command = [*APART, str(SCRIPT), "smoke", "--out", str(tmp_path / "s"), *words]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=600, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("On head node.", "On worker node.", "2 of 2 done, 0 failed, 0 left"):
        assert line in done.stdout, done.stdout + done.stderr
    run(load("smoke", SMALL), tmp_path / "here", executor="serial")
    assert stable_records(tmp_path / "s") == stable_records(tmp_path / "here")
