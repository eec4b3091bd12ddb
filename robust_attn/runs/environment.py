"""What a run ran on: versions, commit, weights and their hashes, threads. No user names, home paths or secrets."""

from __future__ import annotations

import platform
import resource
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("robust_attn", "torch", "transformers", "hydra-core", "wandb", "POT", "torchattacks", "numpy", "scipy")
PROSE = ("Jinja2", "scikit-learn")
"""Packages whose documentation is part of data=prose."""


def environment(*, weights: str, sha256: Mapping[str, str], note: str | None, dtype: str) -> dict[str, Any]:
    """The facts that another machine needs in order to repeat a run."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "versions": {name: _version(name) for name in (*PACKAGES, *PROSE)},
        "commit": commit(),
        "weights": weights,
        "weights_sha256": dict(sha256),
        "weights_note": note,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
    }


def commit() -> str | None:
    """The commit of the source tree that runs, with `-dirty` if it has changes; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("-dirty" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def peak_memory_gb() -> float:
    """The largest resident size of this process so far, in units of 10^9 bytes (Linux counts in KiB)."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
