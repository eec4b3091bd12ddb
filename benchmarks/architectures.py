"""Which model types of the installed transformers the generic adapter serves, tiny and random, and why not the others.

python -m benchmarks.architectures                      every type, written to docs/architectures.md
python -m benchmarks.architectures bert t5 --out -      some of them, printed
"""

from __future__ import annotations

import argparse
import datetime
import gc
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.tiny_models import Tiny, model_types, tiny_models
from robust_attn.models.generic import Extraction, extract
from robust_attn.models.generic.refusal import Reason
from robust_attn.models.quiet import quiet_transformers, reason
from robust_attn.runs.environment import commit

PAGE = Path(__file__).parent.parent / "docs" / "architectures.md"
SECONDS = 120
HEAD = """# Architectures

Made by `python -m benchmarks.architectures` with transformers {version}: every model type with an `AutoModel`, built
tiny and random on the CPU, every learnt parameter moved by random numbers, read by the generic adapter
(`robust_attn/models/generic`) without any code of its own. Differences are relative, in float64, between a layer taken
out and what the model itself computes there; a type is supported where all layers of self-attention agree to 1e-10.
Cross attention and pooling heads are no self-attention and are left out. Sizes are small, everything else is as the
type has it by default: DeBERTa-v2, for example, without the relative positions of its checkpoints, which depend on the
tokens and are refused. What was not built says nothing about the adapter: sizes, packages or inputs were missing.
"Own products": the model does not call transformers' attention interface, its products were seen; such layers are
taken out for texts of up to 128 tokens, because only what their masks did there is known.
Measured on {date} at commit {commit}.
"""
WITH = "with "
OWN = "own products"
SUPPORTED, PARTLY, NOT_BUILT = "supported", "in some layers", "not built"


class OverTimeError(BaseException):
    """One type took too long. No ordinary exception: those are what libraries raise, and are expected."""


@dataclass(frozen=True)
class Row:
    """One model type: the verdict, layers taken out of how many, largest difference from the model, and a reason."""

    model_type: str
    verdict: str
    layers: int = 0
    calls: int = 0
    difference: float | None = None
    said: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """As a row of a table."""
        found = f"{self.layers} of {self.calls}" if self.calls else ""
        return (
            self.model_type,
            self.verdict,
            found,
            "" if self.difference is None else f"{self.difference:.0e}",
            self.said,
        )


def row_of(model_type: str) -> Row:
    """The best that any way of building the type shows."""
    best: Row | None = None
    try:
        for tiny in tiny_models(model_type):
            row = _row(model_type, tiny)
            if best is None or row.layers > best.layers or (best.verdict == NOT_BUILT and row.verdict != NOT_BUILT):
                best = row
            if best.verdict not in (NOT_BUILT, str(Reason.NO_ATTENTION)):
                break
    except OverTimeError as error:
        return best or Row(model_type, NOT_BUILT, said=str(error))
    except Exception as error:  # whatever a library says about sizes, packages and inputs
        return best or Row(model_type, NOT_BUILT, said=reason(error)[:120])
    return best or Row(model_type, NOT_BUILT, said="no way to build it is known")


def _row(model_type: str, tiny: Tiny) -> Row:
    try:
        found = extract(tiny.module, tiny.inputs)
    except Exception as error:  # models that cannot run in float64 at all
        return Row(model_type, NOT_BUILT, said=f"it does not run in float64: {reason(error)[:90]}")
    calls = len(found.found) + len(found.refused)
    if not found.found:
        first = found.refused[0]
        silent = first.reason in (Reason.BYPASS, Reason.NO_ATTENTION)
        return Row(model_type, str(first.reason), 0, 0 if silent else calls, said=_detail(first.said, first.reason))
    verdict = SUPPORTED if found.whole else PARTLY
    return Row(model_type, verdict, len(found.found), calls, max(found.differences), _remarks(found))


def _detail(said: str, kind: Reason) -> str:
    return said.removeprefix(str(kind)).removeprefix(": ")


def _remarks(found: Extraction) -> str:
    parts = {
        "norms of queries and keys": any(each.query_norm is not None for each in found.found),
        "a bias by positions": any(each.bias is not None for each in found.found),
        "sinks": any(each.sinks is not None for each in found.found),
    }
    needed = " and ".join(name for name, needs in parts.items() if needs)
    said = [WITH + needed] if needed else []
    said += [OWN] if any(each.longest is not None for each in found.found) else []
    said += ["rounds to float32 inside"] if found.rounds else []
    said += [f"left out: {each}" for each in dict.fromkeys(str(each.reason) for each in found.refused)]
    return "; ".join(said)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """OverTimeError after that many seconds of processor time; in the main thread of a system that has alarms."""

    def over(*_: object) -> None:
        raise OverTimeError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def rows(types: Iterable[str], *, seconds: int) -> Iterator[Row]:
    """One row per type, each within the time given."""
    for model_type in types:
        started = time.process_time()
        try:
            with limited(seconds):
                row = row_of(model_type)
        except OverTimeError as error:  # raised between two steps
            row = Row(model_type, NOT_BUILT, said=str(error))
        print(f"{time.process_time() - started:6.1f} s  {'  '.join(row.cells)}", file=sys.stderr, flush=True)
        gc.collect()
        yield row


def _head(version: str) -> str:
    """What the page is, when it was measured and at which commit."""
    now = datetime.datetime.now(tz=datetime.UTC)
    return HEAD.format(version=version, date=f"{now.day} {now:%B %Y}", commit=(commit() or "unknown")[:7])


def page(found: Sequence[Row]) -> str:
    """The table in Markdown, with counts on top."""
    import transformers

    counts = Counter(row.verdict for row in found)
    worst = max((row.difference for row in found if row.verdict == SUPPORTED and row.difference is not None), default=0)
    supported = [row for row in found if row.verdict == SUPPORTED]
    layers = sum(row.layers for row in supported)
    plain = sum(not row.said.startswith(WITH) for row in supported)
    own = sum(OWN in row.said for row in supported)
    built = len(found) - counts[NOT_BUILT]
    lines = [
        _head(transformers.__version__),
        f"**{counts[SUPPORTED]} of {built} types that were built are supported** "
        f"({layers} layers, worst difference {worst:.0e}); {plain} of them need neither norms of queries and keys, nor "
        f"biases by position, nor sinks; {own} compute attention by products of their own.\n",
        *_markdown(("verdict", "types"), [(verdict, str(count)) for verdict, count in counts.most_common()]),
        "",
        *_markdown(("type", "verdict", "layers", "difference", "remarks"), [row.cells for row in found]),
    ]
    return "\n".join(lines) + "\n"


def known_rows(text: str) -> dict[str, Row]:
    """The rows of a page that was written before."""
    lines = [line[2:-2].split(" | ") for line in text.rpartition("| type |")[2].splitlines()[2:]]
    found = {}
    for model_type, *rest in lines:
        verdict, layers, difference, said = (each.strip() for each in (*rest, "", "", "")[:4])
        taken, _, calls = layers.partition(" of ")
        far = float(difference) if difference else None
        found[model_type] = Row(model_type, verdict, int(taken or 0), int(calls or 0), far, said.replace("\\|", "|"))
    return found


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), line("---" for _ in head), *(line(cells) for cells in body)]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", help="model types; all by default")
    parser.add_argument("--out", default=str(PAGE), help="the page to write, - for the terminal")
    parser.add_argument("--update", action="store_true", help="keep the page's rows of all other types")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="the most processor time that one type may take")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with warnings.catch_warnings(), quiet_transformers():
        warnings.simplefilter("ignore")
        found = {row.model_type: row for row in rows(given.types or sorted(model_types()), seconds=given.seconds)}
    kept = known_rows(Path(given.out).read_text(encoding="utf-8")) if given.update else {}
    text = page([row for _, row in sorted({**kept, **found}.items())])
    if given.out == "-":
        print(text)
    else:
        Path(given.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
