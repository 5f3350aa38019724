"""Rows in, tensors out: sub-words, windows and batches."""
