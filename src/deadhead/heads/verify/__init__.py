"""Checks on a user's own model: the proof, the coverage of architectures, and benchmarks."""
