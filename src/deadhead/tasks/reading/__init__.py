"""Readers: files in, rows out, one for each format."""
