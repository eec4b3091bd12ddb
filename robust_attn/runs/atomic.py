"""Files that are either whole or not there."""

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> Path:
    """Write beside `path`, then rename over it: a reader never sees half a file, an interruption never leaves one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n", errors="replace") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
