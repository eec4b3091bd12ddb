"""From a composed configuration to checked settings; the last place that knows a DictConfig."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, OmegaConf

from robust_attn.config.choices import choices, warn_of_unusable
from robust_attn.config.run import GROUPS, KEYS, RunSettings, chosen_layers
from robust_attn.data.settings import Digits, HubText, ImageFolder, Prose, Rows, TextFile
from robust_attn.settings import Settings, read, settings_of
from robust_attn.tasks.task import Needs
from robust_attn.types import FieldError, UserError
from robust_attn.work import CertificateSettings


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as nested plain values, interpolations resolved."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def settings_from(config: DictConfig) -> RunSettings:
    """Checked settings, or a UserError of one sentence that says what was expected and what came."""
    values = plain(config)
    expect_names("", values, [entry.name for entry in fields(RunSettings)])
    chosen: dict[str, Any] = {group: choice_from(group, values[group]) for group in GROUPS}
    certificate = _made(CertificateSettings, "certificate", values["certificate"], ())
    shared = {name: value for name, value in values.items() if name not in (*chosen, "certificate", "layers")}
    try:
        layers = chosen_layers(values["layers"])
        settings = read(RunSettings, chosen | shared | {"certificate": certificate, "layers": layers})
    except FieldError as error:
        raise UserError(str(error)) from None
    warn_of_unusable()
    return settings


def expect_used(settings: RunSettings, overrides: Iterable[str]) -> None:
    """Refuse what was typed and would be ignored: tokens of images, of which a model makes as many as it has patches.

    And text for a model that is known to read images, before anything is loaded.
    """
    typed = {override.partition("=")[0].lstrip("+") for override in overrides}
    data, model = settings.data, settings.model
    if model.reads is not None and isinstance(data, Prose | TextFile | HubText | Rows):
        fitting = f"data={model.reads}, data=images or data=gaussian"
        raise UserError(f"model={model.name} reads images, data={data.name} is text: take {fitting}.")
    if settings.only is not None and settings.task.needs is not Needs.LAYERS:
        raise UserError(f"only={list(settings.only)} would be ignored: task={settings.task.name} looks at no layers.")
    if "tokens" in typed and isinstance(data, Digits | ImageFolder):
        raise UserError(
            f"tokens={settings.tokens} would be ignored: of an image (data={data.name}) a model makes as many as "
            "it has patches; leave tokens out, or take data=gaussian."
        )


def choice_from(group: str, given: Any) -> Settings:
    """The settings of the choice that was made in a group."""
    known, key = choices(group), KEYS.get(group, "name")
    if not isinstance(given, dict):
        raise _unknown(group, given, known)
    if "suite" in given:
        suites = [name for name, kind in known.items() if hasattr(kind, "suite")]
        if given["suite"] not in suites:
            raise UserError(f"{group}.suite must be one of {', '.join(suites)}, got {given['suite']!r}.")
        return _made(known[given["suite"]], group, given, (key,))
    if given.get(key) not in known:
        raise _unknown(group, given.get(key), known)
    return _made(known[given[key]], group, given, (key,))


def _unknown(group: str, name: Any, known: Collection[str]) -> UserError:
    return UserError(f"There is no {group} {name!r}; there are: {', '.join(known)}.")


def _made(kind: type[Settings], group: str, given: Any, keys: tuple[str, ...]) -> Any:
    """The settings from what is given under a group; `keys` say which choice it is."""
    names = [entry.name for entry in settings_of(kind)]
    expect_names(group, given, [*keys, *names])
    try:
        return read(kind, {name: given[name] for name in names})
    except FieldError as error:
        raise error.of_setting(group) from None


def expect_names(group: str, given: Any, known: Collection[str]) -> None:
    """Nothing beside what is known: Hydra's + adds any key, `_target_` among them, and a file can too."""
    prefix = f"{group}." if group else ""
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        raise UserError(f"There is no setting {prefix + unknown[0]!r}; python -m robust_attn --cfg job lists them all.")
    missing = sorted(set(known) - set(given))
    if missing:
        raise UserError(f"{prefix}{missing[0]} is missing; choose another {group} as a whole.")
