"""Models of the Hugging Face hub: what is on disk already, whether the hub answers, and the download."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from robust_attn.models.cache import sha256_of
from robust_attn.models.folder import weight_files
from robust_attn.models.quiet import reason
from robust_attn.types import UserError

DEFAULT_ENDPOINT = "https://huggingface.co"
PROBE_SECONDS = 3.0
SERVED = "served"
CLOSED = {"GatedRepo": "it is gated", "RepoNotFound": "it is private, or not there"}
"""Words of the hub for what only some may have."""
FILES = (
    "config.json",
    "model.safetensors",
    "model-*-of-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
"""Never pickles, never code."""


@dataclass(frozen=True)
class Snapshot:
    """A hub repository at one revision, on disk."""

    repository: str
    revision: str
    folder: Path

    @property
    def label(self) -> str:
        """How records name these weights."""
        return f"hub:{self.repository}@{self.revision}"


def cached_snapshot(repository: str) -> Snapshot | None:
    """What Hugging Face's own cache has of the repository, None unless configuration and all weights are there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        found = snapshot_download(repository, local_files_only=True, allow_patterns=list(FILES))
        weight_files(Path(found))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError, UserError):
        return None
    return Snapshot(repository, Path(found).name, Path(found))


def hub_answers(path: str) -> bool:
    """Whether the hub serves the file or page at `path`; see `hub_says`."""
    return hub_says(path) == SERVED


def hub_says(path: str) -> str | None:
    """What the hub (HF_ENDPOINT) says about `path`: SERVED, or why not in its own word; None where nobody answers.

    Known within PROBE_SECONDS: the request runs in a daemon thread, because name resolution obeys no timeout.
    HF_HUB_OFFLINE counts as no answer.
    """
    if _offline():
        return None
    answers: list[str] = []

    def ask() -> None:
        request = urllib.request.Request(f"{_endpoint()}/{path}", method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=PROBE_SECONDS):
                answers.append(SERVED)
        except urllib.error.HTTPError as error:
            answers.append(error.headers.get("X-Error-Code") or f"status {error.code}")
        except (OSError, ValueError, HTTPException):
            return

    thread = threading.Thread(target=ask, daemon=True, name="hub-probe")
    thread.start()
    thread.join(PROBE_SECONDS)
    return answers[0] if answers else None


def expect_offered(repository: str) -> None:
    """A UserError that says why if the hub does not hand the repository out to everybody."""
    said = hub_says(f"{repository}/resolve/main/config.json")
    if said == SERVED:
        return
    if _offline():
        raise UserError(
            f"{repository} is not on this disk, and HF_HUB_OFFLINE forbids asking the Hugging Face hub for it"
        )
    if said in CLOSED:
        raise UserError(
            f"the Hugging Face hub does not hand {repository} out to everybody: {CLOSED[said]}. Download it with your "
            "own account and name the folder (model.weights=FOLDER)"
        )
    raise UserError(f"the Hugging Face hub does not answer for {repository}{f' ({said})' if said else ''}")


def download_snapshot(repository: str, pinned: Mapping[str, str]) -> Snapshot:
    """The repository's configuration, safetensors and tokenizer; files named in `pinned` must have that SHA-256."""
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(repository, allow_patterns=list(FILES), endpoint=_endpoint(), etag_timeout=5))
    except Exception as error:
        raise UserError(f"{repository} could not be downloaded from {_endpoint()}: {reason(error)}") from error
    check_pins(found, pinned)
    return Snapshot(repository, found.name, found)


def check_pins(folder: Path, pinned: Mapping[str, str]) -> None:
    """Refuses a folder in which a pinned file has another SHA-256."""
    for name, digest in pinned.items():
        found = sha256_of(folder / name)
        if found != digest:
            raise UserError(f"{folder / name} has SHA-256 {found} where {digest} was expected; not using it")


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}
