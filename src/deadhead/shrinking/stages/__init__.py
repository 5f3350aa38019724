"""The stages of `shrink`, one module each; every stage gives a frozen result to the next.

calibration -> evidence -> choice -> repair -> report
"""
