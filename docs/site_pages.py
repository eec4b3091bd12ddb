"""A hook of MkDocs: pages that stand outside docs/, such as the README, are part of the site, with their links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CITATION.cff": "CITATION.cff",
    "runs/README.md": "runs.md",
}
"""Where a file of the repository stands in the site. All these pages are at its top."""
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".md"):
            text = LINK.sub(lambda found, source=source: found[1] + in_site(found[2], source), text)
        files.append(File.generated(config, target, content=text))
    return files


def in_site(link: str, source: str) -> str:
    """A link as it stands in a file of the repository, as seen from the top of the site."""
    path = ((ROOT / source).parent / link).resolve().relative_to(ROOT).as_posix()
    return PAGES.get(path, path.removeprefix("docs/"))
