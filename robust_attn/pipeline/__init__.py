"""From layers, inputs, attacks and budgets to records. No files, no terminal, no configuration."""
