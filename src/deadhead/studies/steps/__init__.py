"""The steps of a trial, and what they work on."""
