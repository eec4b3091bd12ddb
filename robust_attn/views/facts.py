"""What a run says about itself: its setting, its state, its weights, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from robust_attn.records.flat import flat
from robust_attn.records.home import without_home
from robust_attn.records.store import Run
from robust_attn.views.words import counted, counted_names, lengths_of, sentence

_STATES = {
    "failed": "This run failed",
    "interrupted": "This run was interrupted",
    "unfinished": "This run is not finished: it is under way, or it was killed",
}


def fact(run: Run, key: str) -> Any:
    """A value that the summary, else the first record, else the configuration states."""
    first = run.records[0].to_json() if run.records else {}
    places: tuple[Mapping[str, Any], ...] = (run.summary or {}, first, run.config)
    return next((place[key] for place in places if place.get(key) is not None), None)


def text_of(value: object) -> str:
    """A configuration value in a few words; a group goes by its name."""
    if value is None:
        return "unknown"
    if isinstance(value, dict):
        named = next((value[key] for key in ("name", "kind") if key in value), None)
        if named is not None and "radius" in value:
            return f"{named} {value['radius']}"
        return str(named) if named is not None else ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


def input_noun(run: Run) -> str:
    """What a sample is: a text, a row, an image, a token set."""
    if text_of(fact(run, "model")) == "vit":
        return "image"
    nouns = {"gaussian": "token set", "sphere": "token set", "rows": "row", "images": "image"}
    return nouns.get(text_of(run.config.get("data")), "text")


def tested(run: Run) -> str:
    """What was looked at: which layers of which model, on which inputs, attacked by what."""
    records = [record for record in run.records if record.tokens]
    if not records or any(record.kind in ("soundness", "campaign", "splitting") for record in records):
        return ""
    first, layers = records[0], sorted({record.layer for record in records if record.layer is not None})
    whole = any(record.kind in ("prediction", "repeat") for record in records) or not layers
    part = "" if whole else f"{counted_names(layers, 'layer')} of "
    samples = len({(record.sample, record.row) for record in records})
    inputs = f"{counted(samples, input_noun(run))} of {lengths_of(records)}"
    name = text_of(fact(run, "attack"))
    attacked = f", attacked by {name}" if (run.summary or {}).get("attack") and name not in ("none", "unknown") else ""
    return f"{sentence(part)}{first.model} (weights {first.weights}), on {inputs}{attacked}."


def subtitle(run: Run, *, attacked: bool) -> str:
    """Task, attack and weights; a run that attacked nothing names no attack, whatever its settings hold."""
    keys = ("task", "attack", "weights") if attacked else ("task", "weights")
    parts = ((key, text_of(fact(run, key))) for key in keys)
    return " · ".join(f"{key} {part}" for key, part in parts if part != "unknown")


def weights_note(run: Run) -> str:
    """What must be known about the weights: that random ones stood in for trained ones, how they were stored."""
    note = (run.environment or {}).get("weights_note")
    return str(note) if note else ""


def has_random_weights(run: Run) -> bool:
    """Whether the weights were drawn, not trained."""
    return str(fact(run, "weights") or "").startswith("random")


def state_note(run: Run) -> str:
    """What is wrong with the run as a whole, and with the file of its records; nothing when all is well."""
    sentences = []
    if run.status != "complete":
        message = str((run.summary or {}).get("message") or "").strip()
        state = _STATES.get(run.status, f"This run ended as “{run.status}”")
        sentences.append(f"{state}{': ' + message.rstrip('.') if message else ''}.")
        sentences.append(f"What follows rests on the {counted(len(run.records), 'record')} written so far.")
    if run.damaged_lines:
        lines = counted(run.damaged_lines, "line")
        were = "was" if run.damaged_lines == 1 else "were"
        sentences.append(f"{lines} of records.jsonl could not be read (cut or damaged) and {were} left out.")
    return " ".join(sentences)


def command_of(run: Run) -> str:
    """The command line that repeats the run."""
    return shlex.join(["python", "-m", "robust_attn", *map(_typed, overrides_of(run))])


def overrides_of(run: Run) -> list[str]:
    """What was typed, with ~ for the home folder."""
    return [str(without_home(override)) for override in run.overrides]


def _typed(override: str) -> str:
    """An override as Hydra reads it: a home folder, written ~, must stand in quotes."""
    key, equals, value = override.partition("=")
    return f"{key}='{value}'" if equals and value.startswith("~") else override


def flattened(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested settings as dotted keys, in order, with ~ for the home folder and values in place of references."""
    told = {key: _leaf(value) for key, value in flat(without_home(dict(values))).items()}
    return {key: told.get(value[2:-1], value) if value.startswith("${") else value for key, value in told.items()}


def _leaf(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
