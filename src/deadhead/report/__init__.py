"""A study as tables, figures, findings and one page. No torch is loaded.

    report.page.content.content("my-study")   all that the page shows, as plain data
    report.tables.build.tables("my-study")    its tables, our numbers beside published ones
    report.figures.build.figures("my-study")  its figures, as vega-lite charts
    report.export.export("my-study", "out")   all figures and tables as files

A study can be shown while it still runs: what is missing or failed is marked.
"""
