"""The folder of a study on disk: its records, its lock, and the work that trials share."""
