"""Settings: what can be chosen, Hydra's schemas of it, and checked settings from a composed configuration."""
