"""Hydra's schemas, made from settings: names and types of what can be set, so that a typo is an error."""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, field, make_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import omegaconf
from hydra.core.config_store import ConfigStore

from robust_attn.config.choices import choices
from robust_attn.config.run import GROUPS, KEYS, RunSettings
from robust_attn.models.settings import ModelSettings
from robust_attn.settings import Settings, called, default_of, listed, settings_of
from robust_attn.tasks.registry import ALIASES
from robust_attn.work import CertificateSettings

Entry = tuple[str, Any, Any]
SHARED = ("tolerance",)
"""Settings of a task that are understood without `task.` too: theirs is that of the run unless given."""


def register_schemas() -> None:
    """Make every choice of every group known to Hydra."""
    store = ConfigStore.instance()
    store.store(group="schema", name="run", node=run_schema())
    for group in GROUPS:
        for name, kind in choices(group).items():
            store.store(group=group, name=name, node=schema_of(group, kind))
    for alias, name in ALIASES.items():
        store.store(group="task", name=alias, node=schema_of("task", choices("task")[name]))


def schema_of(group: str, kind: type[Settings]) -> type:
    """A dataclass that OmegaConf takes, with the fields of a choice and what it is called."""
    entries: list[Entry] = _entries(kind)
    key = KEYS.get(group, "name")
    if key not in [name for name, _, _ in entries]:
        entries.insert(0, (key, str, called(kind)))
    if issubclass(kind, ModelSettings) and kind.reads is not None:
        entries.append(("defaults", list[Any], _fresh(["_self_", {"override /data@_global_.data": kind.reads}])))
    return make_dataclass(kind.__name__, entries)


def run_schema() -> type:
    """The same of the run: a place for each group, certificates, and what all tasks share."""
    certificate = make_dataclass("certificate", _entries(CertificateSettings))
    places: list[Entry] = [(group, Any, omegaconf.MISSING) for group in GROUPS]
    places.append(("certificate", certificate, field(default_factory=certificate)))
    known = {name for name, _, _ in places}
    return make_dataclass("run", [*places, *(entry for entry in _entries(RunSettings) if entry[0] not in known)])


def _entries(kind: type[Settings]) -> list[Entry]:
    hints = get_type_hints(kind)
    return [(entry.name, _kind(hints[entry.name]), _default(entry, kind)) for entry in settings_of(kind)]


def _default(entry: Field[Any], kind: type[Settings]) -> Any:
    if entry.name in SHARED and kind is not RunSettings:
        return f"${{{entry.name}}}"
    default = default_of(entry)
    if default is MISSING:
        return omegaconf.MISSING
    return _fresh(listed(default)) if isinstance(default, tuple) else default


def _fresh(values: list[Any]) -> Any:
    """A list as a default; OmegaConf copies what the factory gives."""
    return field(default_factory=lambda: values)


def _kind(hint: Any) -> Any:
    """The type that OmegaConf checks: scalars, perhaps null, and lists of them. It leaves everything else to us."""
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return list[arguments[0]] if arguments[0] in (int, float, str) else Any  # type: ignore[valid-type]
    if get_origin(hint) in (Union, types.UnionType):
        plain = [kind for kind in arguments if kind is not type(None)]
        return Union[plain[0], None] if len(plain) == 1 and plain[0] in (int, float, str) else Any  # noqa: UP007
    return hint if hint in (int, float, str, bool) else Any
