"""What the benchmarks share: interleaved medians of CPU time on one thread, the inputs, and a plain table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

import robust_attn as ra
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.data.source import Prose, read_inputs

Result = TypeVar("Result")


def cpu_seconds(function: Callable[[], object]) -> float:
    """CPU time of one call: with one thread the wall time of an idle machine, and less disturbed by other load."""
    start = time.process_time()
    function()
    return time.process_time() - start


def timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """What the function returns, and the CPU time that it took."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def interleaved(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Medians of the CPU time of each function, called in turn so that a slow minute hits them all."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, seen in zip(functions, times, strict=True):
            seen.append(cpu_seconds(function))
    return [statistics.median(seen) for seen in times]


def prose_case(name: str, weights: str, index: int, tokens: int) -> tuple[AttentionLayer, TokenMeasure]:
    """A layer of a model and its input on one window of English prose, in float64."""
    model = ra.load_model(name, weights=weights)
    generator = torch.Generator().manual_seed(0)
    inputs = read_inputs(Prose(), model, layers=[index], tokens=tokens, samples=1, generator=generator).measures
    return model.layer(index), inputs[index]


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Right-aligned columns as plain text, flushed."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)
