"""The papers that deadhead re-runs: one folder each."""
