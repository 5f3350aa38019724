"""The papers that deadhead re-runs: `catalogue` reads their files, `claims` judges them."""
