"""Run the trials of a study: in this process, in worker processes, or on a Ray cluster.

executors.py    the three executors by name: serial, local, ray
jobs.py         which trial comes next, and whether to continue
one_trial.py    a trial, from its model to its record
processes.py    worker processes of this machine; worker.py is what each of them runs
ray_cluster.py  trials on a Ray cluster
"""
