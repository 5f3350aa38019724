"""Room 3: train a model on a task. `deadhead.finetune` is its door; each module opens with what it does."""
