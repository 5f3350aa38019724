"""The tables of a study: ours beside the published ones."""
