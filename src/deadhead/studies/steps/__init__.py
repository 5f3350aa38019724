"""The steps of a trial, one file each; `studies/step.py` has the table of them."""
