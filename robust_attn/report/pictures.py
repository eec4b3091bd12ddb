"""Figures that an experiment drew itself, taken into the page as they are: the report stays one file."""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 400_000
MOST = 8
OWN = (
    *("layers", "ladder", "convergence", "lengths", "radii", "heads"),
    *("search-layers", "search-ladder", "search-convergence"),
)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """A PNG as a data address."""

    name: str
    address: str


def pictures_in(folder: Path, drawn: Collection[str] = OWN) -> tuple[Picture, ...]:
    """The PNG files in `folder` other than those `drawn` by the report; what is no PNG or too large is left out."""
    if not folder.is_dir():
        return ()
    found = [path for path in sorted(folder.glob("*.png")) if path.stem not in drawn and path.is_file()]
    fitting = [path for path in found if path.stat().st_size <= LARGEST_BYTES]
    contents = ((path.stem, path.read_bytes()) for path in fitting[:MOST])
    return tuple(
        Picture(name, f"data:image/png;base64,{base64.b64encode(content).decode()}")
        for name, content in contents
        if content.startswith(_SIGNATURE)
    )
