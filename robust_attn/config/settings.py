"""From a composed configuration to validated plain values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from robust_attn.config.checks import (
    at_least,
    check_attack,
    check_budget,
    check_certificate,
    check_dtype,
    check_given,
    check_seed,
    check_sizes,
    check_task,
    check_tolerance,
    check_tracker,
    chosen_layers,
    one_of,
)
from robust_attn.config.schema import SCHEMAS, BudgetSchema, CertificateSchema, ModelSchema, RunSchema
from robust_attn.types import UserError

DEVICES = ("auto", "cpu")


def register_schemas() -> None:
    """Make every group's schema known to Hydra, so that typos and wrong types are errors."""
    store = ConfigStore.instance()
    for group, schemas in SCHEMAS.items():
        for name, schema in schemas.items():
            store.store(group=group, name=name, node=schema)


@dataclass(frozen=True)
class Settings:
    """Validated settings; of each group the chosen option as plain values."""

    task: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    attack: dict[str, Any]
    budget: dict[str, Any]
    tracker: dict[str, Any]
    certificate: dict[str, Any]
    layers: tuple[int, ...] | None
    tokens: int
    samples: int
    seed: int
    dtype: str


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as nested plain values, interpolations resolved."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _check_names(values: dict[str, Any]) -> None:
    """Nothing beside what the schemas know: Hydra's + adds any key, `_target_` among them, and a file can too."""
    groups: dict[str, Any] = {"": RunSchema, "model.": ModelSchema, "budget.": BudgetSchema}
    groups["certificate."] = CertificateSchema
    groups |= {f"{group}.": _schema_of(group, values[group]) for group in ("task", "data", "attack", "tracker")}
    for prefix, schema in groups.items():
        given = values[prefix.removesuffix(".")] if prefix else values
        known = set(schema.__dataclass_fields__)
        unknown = sorted(str(name) for name in given if name not in known)
        if unknown:
            raise UserError(
                f"There is no setting {prefix + unknown[0]!r}; python -m robust_attn --cfg job lists them all."
            )
        missing = sorted(known - set(given))
        if missing:
            raise UserError(f"{prefix}{missing[0]} is missing; choose another {prefix.removesuffix('.')} as a whole.")


def _schema_of(group: str, chosen: Any) -> Any:
    """The schema of the option of a group that was chosen."""
    known = SCHEMAS[f"schema/{group}"]
    name = "torchattacks" if "suite" in (chosen or ()) else chosen.get("name") if isinstance(chosen, dict) else chosen
    if name not in known:
        raise UserError(f"There is no {group} {name!r}; there are: {', '.join(known)}.")
    return known[name]


def settings_from(config: DictConfig) -> Settings:
    """Validated settings, or a UserError of one sentence that says what was expected and what came."""
    values = plain(config)
    _check_names(values)
    for name in ("tokens", "samples"):
        at_least(name, values[name], 1)
    check_seed(values["seed"])
    check_given(values)
    check_dtype(values["dtype"], values["task"]["name"])
    one_of("device", values["device"], DEVICES)
    check_budget(values["budget"])
    check_attack(values["attack"])
    check_tracker(values["tracker"])
    check_sizes(values["model"])
    check_certificate(values["certificate"])
    check_tolerance(values)
    check_task(values["task"])
    names = {field.name for field in fields(Settings)} - {"layers"}
    return Settings(layers=chosen_layers(values["layers"]), **{name: values[name] for name in names})
