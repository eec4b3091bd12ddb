"""What `--help` prints: every group, its choices, and of each what can be set, as the settings themselves say it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field
from typing import Any

from robust_attn.config.choices import OURS, USUAL, choices
from robust_attn.config.folder import experiments
from robust_attn.config.run import GROUPS, RunSettings
from robust_attn.settings import default_of, limits_of, settings_of, summary_of
from robust_attn.work import CertificateSettings

WIDTH = 100
COLUMN = 34
BEGINNING = """\
robust_attn attacks the attention layers of transformers, by moving tokens and by splitting their
mass, and certifies how far their output can move.

python -m robust_attn experiment=quickstart                    pretrained, offline, a minute
python -m robust_attn attack=mass_split model=bert             attack, certify, report
python -m robust_attn task=certify model=minilm layers=[0,3]   certificates without an attack
python -m robust_attn task=certify tolerance=0.1 model=minilm  and the radius that keeps to 0.1
python -m robust_attn attack=torchattacks attack.name=PGDL2    an attack of torchattacks by its name
python -m robust_attn experiment=flip                          flip the decision of a classifier
python -m robust_attn -m attack=move,mass_split tokens=16,32   a sweep
python -m robust_attn -m ... sweep.resume=DIR                  continue an interrupted sweep
python -m robust_attn -m ... sweep.jobs=layers,samples         every layer and sample as a job
python -m robust_attn -v ...                                   a line for every record
python -m robust_attn ... --cfg job                            print every setting, run nothing
python -m robust_attn.report DIR                               one report over every run below DIR
python -m robust_attn.report A B --compare                     two runs side by side, pair by pair
python -m robust_attn ... fail_if='certified_radius<0.001'     exit status 4 where that holds
"""
END = """\
Exit status: 0 every certificate holds, 1 a run failed, 2 the configuration is wrong,
3 a certificate was violated, 4 a condition of fail_if holds."""


def help_text() -> str:
    """All of it."""
    shared = [entry for entry in settings_of(RunSettings) if entry.name not in (*GROUPS, "certificate")]
    parts = [
        BEGINNING,
        "Settings of every run, with their defaults\n",
        *_lines(shared, "", "  "),
        f"\ncertificate: {_field('certificate').help}\n",
        *_lines(list(settings_of(CertificateSettings)), "certificate.", "  "),
        *(line for group in GROUPS for line in _group(group)),
        "\nexperiment: a saved experiment; NAME_quick is the same, smaller\n",
        _filled(", ".join(name for name in experiments() if not name.endswith("_quick")), "  ", "  "),
        f"\n{END}",
    ]
    return "\n".join(parts)


def default_text(entry: Field[Any]) -> str:
    """The default of a field as it would be typed; three dots where it must be given."""
    return typed(default_of(entry))


def typed(value: Any) -> str:
    """A value as it would be typed on the command line."""
    if value is MISSING:
        return "..."
    if isinstance(value, tuple | list):
        return "[" + ",".join(map(typed, value)) + "]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def description(entry: Field[Any]) -> str:
    """What a field is, and what it may be."""
    limits = limits_of(entry)
    return f"{limits.help} ({limits.expected})" if limits.limiting else limits.help


def common_settings(group: str) -> list[Field[Any]] | None:
    """The fields of a group's choices where all of ours have the same."""
    kinds = list(OURS[group].values())
    names = {tuple(entry.name for entry in settings_of(kind)) for kind in kinds}
    return list(settings_of(kinds[0])) if len(names) == 1 else None


def _field(name: str) -> Any:
    return next(limits_of(entry) for entry in settings_of(RunSettings) if entry.name == name)


def _group(group: str) -> Iterator[str]:
    yield f"\n{group}: {_field(group).help}; {group}={USUAL[group]} unless another is chosen\n"
    common = common_settings(group)
    for name, kind in choices(group).items():
        yield _line(f"{group}={name}", summary_of(kind), "  ")
        if common is None or name not in OURS[group]:
            yield from _lines(list(settings_of(kind)), f"{group}.", "    ")
    if common:
        yield ""
        yield from _lines(common, f"{group}.", "  ")


def _lines(entries: Sequence[Field[Any]], prefix: str, indent: str) -> Iterator[str]:
    for entry in entries:
        yield _line(f"{prefix}{entry.name}={default_text(entry)}", description(entry), indent)


def _line(left: str, right: str, indent: str) -> str:
    """Two columns; what is on the left may be so long that the right begins below it."""
    column, start = " " * COLUMN, f"{indent}{left}"
    if len(start) > COLUMN - 2:
        return f"{start}\n{_filled(right, column, column)}"
    return _filled(right, start.ljust(COLUMN), column)


def _filled(text: str, first: str, others: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
