"""Where the configuration files are."""

from __future__ import annotations

from pathlib import Path


def configuration_folder() -> Path:
    """conf/ inside the installed package, or at the root of the source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def experiments() -> tuple[str, ...]:
    """The saved experiments, by name."""
    return tuple(sorted(path.stem for path in (configuration_folder() / "experiment").glob("*.yaml")))
