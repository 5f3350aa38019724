"""Training with checkpointing, which computes each layer twice to save memory: the same numbers."""

import pytest
import torch
from small_tasks import tagger

from deadhead.training import Settings, finetune


def test_checkpointing_gives_the_same_numbers(letters):
    """Each layer runs twice, and is as before afterwards, also where the training is stopped."""
    models = [tagger(dropout=0.0).double() for _ in range(3)]
    runs = [0, 0, 0]
    for place, model in enumerate(models):

        def count(*_, place=place):
            runs[place] += 1

        model.bert.encoder.layer[0].attention.register_forward_pre_hook(count)

    def stop(tick):
        raise KeyboardInterrupt

    settings = Settings(batch=8, rate=3e-3, epochs=1)
    reference, again, stopped = models
    losses = [
        finetune(model, letters, settings, checkpointing=model is again, progress=False).losses
        for model in (reference, again)
    ]
    with pytest.raises(KeyboardInterrupt):
        finetune(stopped, letters, settings, checkpointing=True, progress=stop)
    assert (runs[1], runs[2]) == (2 * runs[0], 2)
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]))
    torch.testing.assert_close(dict(reference.named_parameters()), dict(again.named_parameters()))
    assert not [m for model in models for m in model.modules() if "forward" in vars(m)]
