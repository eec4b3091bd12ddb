"""What a run is called: by its attack and model, or by its task where it attacks nothing; and a hash of settings."""

from __future__ import annotations

import hashlib
import json

STUDIES_OF_ONE_HEAD = ("adversarial", "radius", "mean_field", "mass_splitting", "unbalanced")
"""Tasks that load no model and take no attack from the settings."""
LOADS_NO_MODEL = (*STUDIES_OF_ONE_HEAD, "soundness")
ATTACKS_WHOLE_MODEL = ("through_model", "repeat_tokens")


def run_name(task: str, attack: str, model: str) -> str:
    """attack-model for the main task; other tasks name themselves, and then only what they really use."""
    if task == "attack":
        return f"{attack}-{model}"
    if task in LOADS_NO_MODEL:
        return task
    return f"{task}-{attack}-{model}" if task in ATTACKS_WHOLE_MODEL else f"{task}-{model}"


def settings_hash(settings: object) -> str:
    """Eight digits, the same for the same nested plain values in any order and on every machine."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
