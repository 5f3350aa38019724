"""The figures of a study, as plain vega-lite."""
