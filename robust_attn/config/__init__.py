"""Settings: what can be chosen, Hydra's schemas of it, and checked settings from a composed configuration."""

from robust_attn.config.choices import choices
from robust_attn.config.run import RunSettings, Values
from robust_attn.config.schema import register_schemas
from robust_attn.config.settings import plain, settings_from

Settings = Values

__all__ = ["RunSettings", "Settings", "Values", "choices", "plain", "register_schemas", "settings_from"]
