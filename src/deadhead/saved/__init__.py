"""Do something to a saved model: prune, shrink, fine-tune, rank, measure. Commands call this."""
