#!/usr/bin/env bash
# A study on the nodes of a Slurm allocation. Ray's own launcher starts a cluster on them, runs the study on the first
# node, which hands the trials to all of them, and takes the cluster down again.
#
#     sbatch examples/slurm.sh weak-link/table4 --out /shared/table4 --data /shared/data
#
# All that follows the name of the script goes to `deadhead run`. Nodes, cores and time are asked for below or on the
# command line of sbatch (`sbatch --nodes=4 --gpus-per-node=8 examples/slurm.sh ...`). The study's folder, the data and
# the installation must be where all nodes see them. A job that runs out of time loses the trials that were running and
# nothing else: submit it again and it goes on.
#SBATCH --job-name=deadhead
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
set -euo pipefail

nodes=$SLURM_JOB_NUM_NODES
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
address="$first:${DEADHEAD_RAY_PORT:-6379}"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN # a secret of this job: others on the network cannot give work to its cluster
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT="${RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT:-300}" # seconds for all nodes to join

# Ray's launcher gives up on a node that comes before the first one listens, so the others wait for it.
launch='[ "$SLURM_NODEID" = 0 ] || until (: >"/dev/tcp/${0%:*}/${0##*:}") 2>/dev/null; do sleep 1; done
exec ray symmetric-run --address "$0" "$@"'
# Whether nodes go down well says nothing of the study, and the launcher says that all is well also where it could not
# start: what counts is the study's own answer.
answer=$(mktemp)
srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 \
    bash -c "$launch" "$address" --min-nodes "$nodes" --num-cpus="${SLURM_CPUS_PER_TASK:-1}" -- \
    bash -c 'deadhead run "$@"; echo $? >"$0"' "$answer" "$@" --executor ray --address "$address" || true
[ -s "$answer" ] || echo "The study was not begun: Ray did not start on all nodes." >&2
exit "$(grep . "$answer" || echo 1)"
