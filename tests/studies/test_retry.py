"""--retry-failed trains again what failed, with what is left of it on disk or without."""

from deadhead.studies import load, read, run

SMALL = [
    "data.examples=32",
    "targets=[de]",
    "finetune={epochs: 2, batch: 16}",
    "remove=none",
    "seed=0",
]


def test_a_failed_training_of_several_epochs_is_trained_again(tmp_path, monkeypatch):
    recipe = load("smoke", SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("deadhead.training.run.math.isfinite", lambda loss: False)
        assert run(recipe, tmp_path / "s", executor="serial").failed == 1
    (trial,) = recipe.trials
    assert "a smaller rate may help" in str(read(tmp_path / "s", trial.id).error)
    result = run(recipe, tmp_path / "s", executor="serial", retry_failed=True)
    assert (result.ran, result.done, result.failed) == (1, 1, 0)
    run(recipe, tmp_path / "whole", executor="serial")
    assert read(tmp_path / "s", trial.id).metrics == read(tmp_path / "whole", trial.id).metrics
