"""The operator: attention layers as plain weights, weighted token measures, and the closed-form derivative."""
