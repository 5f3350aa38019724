"""Who runs the trials: this process, worker processes, or a Ray cluster."""
