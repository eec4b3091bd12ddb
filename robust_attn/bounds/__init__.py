"""One pure function per theorem; each returns a Bound."""
