"""What people see while they work: lines of progress, and heads as a table in a notebook."""
