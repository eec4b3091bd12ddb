"""What records amount to, before it is put into a format: statements, tables, panels. Torch-free, and no files."""
