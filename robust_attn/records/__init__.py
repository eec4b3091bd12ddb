"""Records: what a run writes, a frozen dataclass per kind; all that builds or reads a record goes through it."""
