"""What a run says about itself: its setting, its state, its weights, and the command that repeats it."""

import shlex
from collections.abc import Mapping
from typing import Any

from robust_attn.report.load import Run
from robust_attn.report.numerals import finite
from robust_attn.report.words import Setting, counted

_STATES = {
    "failed": "This run failed",
    "interrupted": "This run was interrupted",
    "unfinished": "This run is not finished: it is under way, or it was killed",
}


def setting_of(run: Run) -> Setting:
    """Kind of budget and inputs; the smallest radius of all records, at which every one of them holds."""
    budgets = [budget for record in run.records if isinstance(budget := record.get("budget"), dict)]
    asked = fact(run, "budget")
    known = budgets[0] if budgets else asked if isinstance(asked, dict) else {}
    radii = [radius for budget in budgets or [known] if (radius := finite(budget.get("radius"))) is not None]
    return Setting(str(known.get("kind") or ""), min(radii, default=None), _input_noun(run))


def fact(run: Run, key: str) -> Any:
    """A value that the summary, else the first record, else the configuration states."""
    places: tuple[Mapping[str, Any], ...] = (run.summary or {}, run.records[0] if run.records else {}, run.config)
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


def _input_noun(run: Run) -> str:
    if text_of(fact(run, "model")) == "vit":
        return "image"
    data = text_of(run.config.get("data"))
    return "token set" if data in ("gaussian", "sphere") else "text"


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
    return shlex.join(["python", "-m", "robust_attn", *map(_typed, run.overrides)])


def _typed(override: str) -> str:
    """An override as Hydra reads it: a home folder, written ~, must stand in quotes."""
    key, equals, value = override.partition("=")
    return f"{key}='{value}'" if equals and value.startswith("~") else override


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted keys, in order."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flattened(value, f"{name}.")
        else:
            flat[name] = _leaf(value)
    return flat


def _leaf(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def sample_texts(run: Run, limit: int = 8, characters: int = 400) -> tuple[tuple[str, str], ...]:
    """The text of each sample where records carry it, a few of them, shortened."""
    texts: dict[str, str] = {}
    for record in run.records:
        text = next((record[key] for key in ("text", "samples text", "sample_text") if record.get(key)), None)
        if text is None or str(record.get("sample")) in texts:
            continue
        if len(texts) == limit:
            break
        whole = " ".join(text) if isinstance(text, list) and all(isinstance(part, str) for part in text) else str(text)
        texts[str(record.get("sample"))] = whole if len(whole) <= characters else whole[: characters - 1] + "…"
    return tuple(texts.items())
