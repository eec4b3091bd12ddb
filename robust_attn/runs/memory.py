"""How much memory certificates will take, asked before the work: the kernel ends a process without a word."""

from __future__ import annotations

import os
from pathlib import Path

from robust_attn.types import UserError, counted

MATRICES = 80
"""Matrices of atoms by atoms that bounds at four radii hold at once; measured, see docs/trust.md."""
PAIR_BYTES, BLOCK_BYTES = 800, 17 * 10**8
"""Beside them, per head and pair of atoms; blocks of rows keep the sum of it below a limit. Measured too."""
MEMORY_INFO = Path("/proc/meminfo")
LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
STATISTICS, RECLAIMABLE = "memory.stat", ("inactive_file", "total_inactive_file")
"""Beside them: file pages that count as used, but that the kernel gives up before anything else."""


def certificate_bytes(samples: int, atoms: int, heads: int) -> int:
    """An estimate for attacking and certifying a layer at so many samples with so many atoms each, in float64."""
    pairs = samples * atoms**2
    return MATRICES * 8 * pairs + min(PAIR_BYTES * heads * pairs, BLOCK_BYTES)


def require_memory(samples: int, atoms: int, heads: int) -> None:
    """Refuse what will not fit, in one sentence that says what to change; pass in silence where nothing is known."""
    needed, available = certificate_bytes(samples, atoms, heads), available_bytes()
    if available is not None and needed > available:
        raise UserError(
            f"Certificates of {counted(samples, 'sample')} with {counted(atoms, 'atom')} each take about "
            f"{needed / 1e9:.1f} GB, but {available / 1e9:.1f} GB are free: take fewer samples or tokens "
            "(memory grows with the square of these)."
        )


def most_that_fit(samples: int, atoms: int, heads: int) -> int:
    """How many layers may be certified at once: what they take stays below half of what is free; one at least."""
    available = available_bytes()
    fitting = 1 if available is None else available // (2 * certificate_bytes(samples, atoms, heads))
    return max(1, int(fitting))


def available_bytes() -> int | None:
    """What the machine and the process's control group leave; None where neither says."""
    known = [value for value in (_machine(), *(_left(*pair) for pair in LIMITS)) if value is not None]
    return min(known, default=None)


def _machine() -> int | None:
    for line in _text(MEMORY_INFO).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left(limit: Path, used: Path) -> int | None:
    """Of a control group; `max` stands for no limit."""
    most, now = _text(limit).strip(), _text(used).strip()
    if not (most.isdecimal() and now.isdecimal()):
        return None
    pairs = (line.split() for line in _text(used.with_name(STATISTICS)).splitlines())
    free = max((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in RECLAIMABLE), default=0)
    return max(int(most) - max(int(now) - free, 0), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii") if os.name == "posix" else ""
    except (OSError, ValueError):
        return ""
