"""The folder where weights are kept between runs: verified on the way in and out, filled atomically."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from robust_attn.types import UserError

MANIFEST = "manifest.json"
LOCK_SECONDS = 1800.0
"""How long a process waits for another one that is filling the same folder."""


def cache_folder() -> Path:
    """ROBUST_ATTN_CACHE if it is set, else the platform's cache folder of the user."""
    chosen = os.environ.get("ROBUST_ATTN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("robust_attn"))


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def kept_folder(name: str, pinned: Mapping[str, str], fill: Callable[[Path], None]) -> Path:
    """The cache's folder `name`, intact as `is_intact` says. `fill` makes it if it is absent or damaged.

    `fill` works on a temporary folder that gets its name only when complete, so a crash leaves nothing half-done, and
    a lock makes a second process wait for the first one's result.
    """
    from filelock import FileLock, Timeout

    final = cache_folder() / name
    if is_intact(final, pinned):
        return final
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(final.parent / f"{name}.lock", timeout=LOCK_SECONDS):
            if not is_intact(final, pinned):
                _refill(final, fill)
    except Timeout as error:
        raise UserError(f"another process has been filling {final} for {LOCK_SECONDS:.0f} s; try again") from error
    except OSError as error:
        raise UserError(f"cannot keep weights in {final.parent} (set ROBUST_ATTN_CACHE): {error}") from error
    return final


def is_intact(folder: Path, pinned: Mapping[str, str]) -> bool:
    """Whether every file named in the folder's manifest has the SHA-256 recorded there, and the pinned one if any."""
    try:
        manifest = recorded_digests(folder)
        return all(
            sha256_of(folder / name) == digest and pinned.get(name, digest) == digest
            for name, digest in manifest.items()
        )
    except (OSError, ValueError):
        return False


def recorded_digests(folder: Path) -> Mapping[str, str]:
    """SHA-256 by file name, as recorded when the folder was filled."""
    manifest: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return manifest


def _refill(final: Path, fill: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.name}-") as work:
        folder = Path(work) / "filled"
        folder.mkdir()
        fill(folder)
        digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
        (folder / MANIFEST).write_text(json.dumps(digests, indent=1), encoding="utf-8")
        if final.exists():
            shutil.rmtree(final)
        folder.replace(final)
