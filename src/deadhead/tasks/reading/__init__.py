"""Files in, rows out: one reader for each format."""
