"""Tasks: each is one object in one file, with its settings, what it needs, its records, and what these amount to.

Nothing slow is imported before records are made, so that `--help` and reports answer at once.
"""
