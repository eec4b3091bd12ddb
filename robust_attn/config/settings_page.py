"""The table of docs/settings.md: `python -m robust_attn.config.settings_page` writes it between its two markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

from robust_attn.config.choices import OURS, USUAL
from robust_attn.config.help import common_settings, default_text, description
from robust_attn.config.run import GROUPS, RunSettings
from robust_attn.settings import limits_of, settings_of
from robust_attn.work import CertificateSettings

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "settings.md"
BEGIN = "<!-- settings: written by python -m robust_attn.config.settings_page -->\n"
END = "<!-- end of settings -->\n"


def table() -> str:
    """One row per group, with what each choice can be told, and one per setting that all runs share."""
    rows = ["| setting | default | what it is, and what it may be |", "| --- | --- | --- |"]
    for entry in settings_of(RunSettings):
        rows += _rows(entry)
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def _rows(entry: Field[Any]) -> Iterator[str]:
    if entry.name in GROUPS:
        yield _row(entry.name, USUAL[entry.name], f"{limits_of(entry).help}: {_choices(entry.name)}")
        for own in common_settings(entry.name) or ():
            yield _row(f"{entry.name}.{own.name}", default_text(own), description(own))
    elif entry.name == "certificate":
        for own in settings_of(CertificateSettings):
            yield _row(f"certificate.{own.name}", default_text(own), description(own))
    else:
        yield _row(entry.name, default_text(entry), description(entry))


def _row(name: str, default: str, words: str) -> str:
    return f"| `{name}` | {default} | {words} |"


def _choices(group: str) -> str:
    """Names of choices, each with its settings in brackets unless all have the same."""
    told = {name: ", ".join(f"`{entry.name}`" for entry in settings_of(kind)) for name, kind in OURS[group].items()}
    if common_settings(group):
        return ", ".join(told)
    return ", ".join(f"{name} ({settings})" if settings else name for name, settings in told.items())


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
