"""Settings: the schema of every configuration group, and their translation into validated plain values."""

from robust_attn.config.schema import SCHEMAS
from robust_attn.config.settings import Settings, plain, register_schemas, settings_from

__all__ = ["SCHEMAS", "Settings", "plain", "register_schemas", "settings_from"]
