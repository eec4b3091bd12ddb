"""The paper's experiments, and those it suggests: each turns settings into records, and records into panels."""
