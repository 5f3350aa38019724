"""Proofs and measurements on a user's own model: identities, coverage, benchmarks."""
