"""Room 5: a study to look at. Records become tables, figures, findings and one page; no torch is loaded.

    report.content.content("my-study")       all that the page shows, as plain data
    report.tables.tables("my-study")         the tables of its recipe, ours beside published
    report.figures.figures("my-study")       its figures, as vega-lite
    report.export.export("my-study", "out")  figures as SVG, PNG and PDF, tables as CSV, Markdown and LaTeX

It can be read while the study still runs: what is missing or failed is marked as such.
"""
