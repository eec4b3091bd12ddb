"""A local folder of weights in Hugging Face's layout, looked at before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_attn.models.cache import sha256_of
from robust_attn.types import UserError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
IMAGE_PROCESSOR_FILE = "preprocessor_config.json"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")


def check_folder(folder: Path, architecture: str | None) -> None:
    """Refuses a folder that does not hold readable safetensors of the architecture, of any one if none is named."""
    content = configuration(folder)
    if "model_type" not in content:
        raise UserError(
            f"{folder / 'config.json'} has no model_type, so it does not say what its weights are; expected "
            f'"model_type": "{architecture or "bert"}"'
        )
    found = content["model_type"]
    if architecture is not None and found != architecture:
        raise UserError(
            f"{folder} holds weights of another architecture: its model_type is {found!r}, expected {architecture!r}"
        )
    if "auto_map" in content and not _is_known(str(found)):
        raise UserError(
            f"{folder} holds a model of type {found!r} that brings its own code (auto_map), which is never run; only "
            "types that the installed transformers knows are read"
        )
    for path in weight_files(folder):
        _check_readable(path)


def _is_known(model_type: str) -> bool:
    from transformers import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING


def stored_in_float64(folder: Path) -> bool:
    """Whether any tensor needs more than float32, which holds float32, float16 and bfloat16 as they are."""
    from safetensors import safe_open

    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            if any(file.get_slice(name).get_dtype() == "F64" for name in file.keys()):  # noqa: SIM118
                return True
    return False


def configuration(folder: Path) -> Mapping[str, Any]:
    """The content of the folder's config.json."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to take weights from")
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder} has no config.json, so it is not a folder of model weights") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{folder / 'config.json'} does not describe a model")
    return content


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The folder's safetensors: one file, or the shards that its index names."""
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if not (folder / INDEX).is_file():
        raise UserError(f"{folder} has neither {SINGLE} nor {INDEX}; weights in other formats are not read")
    shards = _shard_names(folder / INDEX)
    missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder / INDEX} names shards that are not there: {', '.join(missing)}")
    return tuple(folder / name for name in shards)


def digests(folder: Path) -> Mapping[str, str]:
    """SHA-256 of every weight file by name."""
    return {path.name: sha256_of(path) for path in weight_files(folder)}


def has_tokenizer(folder: Path) -> bool:
    """Whether the folder has the files of a tokenizer."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def _shard_names(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{index} cannot be read: {error}") from error


def _check_readable(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as opened:
            opened.keys()
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged or not a safetensors file: {error}") from error
