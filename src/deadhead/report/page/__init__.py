"""One self-contained page of a study, and the server that keeps it live."""
