"""Certificates of whole predictions against attacks, on random small whole models of every kind.

    python -m benchmarks.prediction_soundness --cases 500
    python -m benchmarks.prediction_soundness --cases 5000 --first 500 --minutes 60

Models are those of `task=soundness task.models=N` (robust_attn/soundness/whole_models.py): one or two blocks, norms
before or after, LayerNorm or RMSNorm, GELU, tanh-GELU, SiLU, ReLU, tanh, gated or not, causal or not, shared keys and
rotary positions, class tokens, narrow embeddings, any pooling and head, margins of every size. A case is one
certificate of our own that is positive, for all rows, a row, or any row, with samples or without; it is attacked
within its radius and beyond (robust_attn/soundness/predictions.py). Intervals and constants are attacked too and
counted apart. VIOLATED: a flip nearer than certified. Exit status 3 if there is one, 1 if a model could not be checked.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from itertools import count

import torch

from benchmarks.measuring import print_table
from robust_attn.soundness.comparison import Comparison
from robust_attn.soundness.predictions import NAME, SIMPLE, WholeCase, model_checked

KINDS = ("all", "row", "one_word", "deterministic", "deterministic_row", *SIMPLE)


def kind_of(comparison: Comparison) -> str:
    """all, row, ..."""
    return comparison.bound.removeprefix(f"{NAME}.")


def own(comparisons: list[Comparison]) -> int:
    """How many certificates of our own."""
    return sum(kind_of(each) not in SIMPLE for each in comparisons)


def table(comparisons: list[Comparison]) -> list[list[str]]:
    """Per kind: cases, violated, how many flipped at all, the largest certified / flip, and the median."""
    rows = []
    for kind in KINDS:
        of_kind = [each for each in comparisons if kind_of(each) == kind]
        shares = sorted(each.observed / each.allowed for each in of_kind if math.isfinite(each.allowed))
        told = [f"{shares[-1]:.4f}", f"{shares[len(shares) // 2]:.3f}"] if shares else ["-", "-"]
        violated = sum(each.violated for each in of_kind)
        rows.append([kind, str(len(of_kind)), str(violated), str(len(shares)), *told])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="certificates of our own that are attacked, at least")
    parser.add_argument("--first", type=int, default=0, help="seed of the first model")
    parser.add_argument("--minutes", type=float, default=None, help="end after so many minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    begin, cpu = time.monotonic(), time.process_time()
    comparisons: list[Comparison] = []
    models, unknown, seed = 0, 0, options.first
    for seed in count(options.first):
        found = model_checked(WholeCase(seed)).checked
        models, comparisons = models + 1, comparisons + list(found.comparisons)
        unknown += len(found.unknown)
        for each in (*found.violations, *found.unknown):
            print(f"seed {seed}: {each}", flush=True)
        if models % 50 == 0:
            print(f"{models} models, {own(comparisons)} cases, {time.process_time() - cpu:.0f} CPU s", flush=True)
        late = options.minutes is not None and time.monotonic() - begin > 60 * options.minutes
        if late or own(comparisons) >= options.cases:
            break
    print_table(
        ["certificate", "cases", "violated", "flipped", "largest certified / flip", "median"], table(comparisons)
    )
    violated = sum(each.violated for each in comparisons)
    print(
        f"{own(comparisons)} cases of our own and {len(comparisons) - own(comparisons)} of simpler proofs, "
        f"{models} models, seeds {options.first} to {seed}: "
        f"{violated} violated, {unknown} failed; {time.process_time() - cpu:.0f} CPU s"
    )
    return 3 if violated else 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
