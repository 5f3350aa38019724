"""Numbers in, numbers out: what the papers compute from the scores, rankings and measures of a study.

Plain functions over plain numbers, without torch; where one belongs to a figure, another gives its rows.
"""
