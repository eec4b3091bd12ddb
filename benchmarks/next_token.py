"""Through a whole language model: does the next token change when one token of a long context is moved or retyped?

    python -m benchmarks.next_token                       # SmolLM2 (30 layers, float32), n = 512 and 2048
    python -m benchmarks.next_token --lengths 8192
    python -m benchmarks.next_token --quick

The context is running English (data=prose). W2 is that of the embeddings: one token of n within W2 `--radius` may go
radius * sqrt(n). One backward pass gives the gradient of the margin (the logit of the next token less that of the
runner-up) with respect to every embedding; layers are recomputed there, and attention never holds more than a block of
rows, so memory grows with n and not with its square. Looked at: the token with the largest gradient, and the one with
the largest gradient that is at least `--far` tokens before the end. With `--end` the gradient is that of the last
`--far` tokens alone, from what the model remembers of those before: a forward pass and little more.

    moved     against the gradient, as far as W2 `--radius` allows; at the end for all tokens at once
    near      typed in its place: of all tokens of the vocabulary within that distance, the one that the gradient likes
    typed     the same among all tokens of the vocabulary, whatever their distance; its W2 stands beside it
    flip W2   the smallest W2 found at which moving against the gradient changes the next token, by doubling and halving
              (`>` where not even a hundred radii do)
"""

from __future__ import annotations

import argparse
import copy
import math
import resource
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import robust_attn as ra
from benchmarks.measuring import print_table
from robust_attn.data.source import Prose, text_windows

NAMES = ["n", "token", "before the end", "what", "W2", "margin before", "after", "next token", "changed"]
FARTHEST = 100.0
"""Radii up to so many times the one asked for are tried."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A language model, a context, and what it remembers of it: a later pass begins at the first changed token."""

    model: ra.AttentionModel
    points: Tensor
    memory: Any
    logits: Tensor

    @classmethod
    def of(cls, model: ra.AttentionModel, ids: Tensor) -> Reader:
        points = model.module.get_input_embeddings()(ids).detach()
        with torch.no_grad():
            said = model.module(inputs_embeds=points[None], use_cache=True, logits_to_keep=1)
        return cls(model, points, said.past_key_values, said.logits[0, -1])

    @property
    def pair(self) -> tuple[int, int]:
        """The next token, and the runner-up."""
        first, second = self.logits.topk(2).indices.tolist()
        return first, second

    def margin(self, logits: Tensor) -> float:
        """By how much the clean next token leads whatever else is best."""
        rest = logits.clone()
        rest[self.pair[0]] = -math.inf
        return float(logits[self.pair[0]] - rest.max())

    def after(self, points: Tensor) -> Tensor:
        """The logits of the next token when the embeddings are others."""
        changed = (points != self.points).any(-1).nonzero()
        if not len(changed):
            return self.logits
        first = int(changed[0])
        memory = copy.deepcopy(self.memory) if first else None
        if memory is not None:
            memory.crop(first - len(points))
        with torch.no_grad():
            said = self.model.module(
                inputs_embeds=points[None, first:], past_key_values=memory, use_cache=True, logits_to_keep=1
            )
        return said.logits[0, -1]

    def gradient_at_end(self, count: int) -> Tensor:
        """The same for the last tokens, whose embeddings nothing before them has seen; zero for the others."""
        (first, second), memory = self.pair, copy.deepcopy(self.memory)
        memory.crop(-count)
        points = self.points[-count:].clone().requires_grad_()
        said = self.model.module(inputs_embeds=points[None], past_key_values=memory, use_cache=True, logits_to_keep=1)
        (found,) = torch.autograd.grad(said.logits[0, -1, first] - said.logits[0, -1, second], points)
        return torch.cat((torch.zeros_like(self.points[:-count]), found))

    def gradient(self) -> Tensor:
        """Of the margin over the runner-up with respect to every embedding; every layer is computed twice."""
        module, (first, second) = self.model.module, self.pair
        points = self.points.clone().requires_grad_()
        module.train()  # no dropout in these models: what is wanted is that layers forget what they computed
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        logits = module(inputs_embeds=points[None], use_cache=False, logits_to_keep=1).logits[0, -1]
        (found,) = torch.autograd.grad(logits[first] - logits[second], points)
        module.gradient_checkpointing_disable()
        module.eval()
        return found


@dataclass(frozen=True, eq=False)
class Tried:
    """One change of the context, and what the model said."""

    token: str
    back: str
    what: str
    w2: float
    logits: Tensor | None


def moved(points: Tensor, gradient: Tensor, token: int | None, w2: float) -> Tensor:
    """Embeddings moved against the gradient by a W2 distance: one token's, or all."""
    way = gradient if token is None else gradient * (torch.arange(len(points)) == token)[:, None]
    return points - way * (w2 * math.sqrt(len(points)) / way.norm())


def retyped(reader: Reader, gradient: Tensor, token: int, most: float) -> tuple[int, float] | None:
    """The vocabulary's token that lowers the margin most to first order, within a distance; None if there is none."""
    table, here = reader.model.module.get_input_embeddings().weight.detach(), reader.points[token]
    distance = (table - here).norm(dim=-1)
    slope = torch.where((distance > 0) & (distance <= most), (table - here) @ gradient[token], math.inf)
    found = int(slope.argmin())
    return None if math.isinf(float(slope[found])) else (found, float(distance[found]) / math.sqrt(len(gradient)))


def flip(reader: Reader, gradient: Tensor, token: int, radius: float) -> tuple[float, Tensor] | None:
    """The smallest W2 found at which the next token changes, and what is said there."""
    low, high = 0.0, radius
    best = None
    for _ in range(12):
        logits = reader.after(moved(reader.points, gradient, token, high))
        if reader.margin(logits) < 0:
            best = (high, logits)
            high = (low + high) / 2
        else:
            low = high
            high = 2 * high if best is None else (low + best[0]) / 2
        if high > FARTHEST * radius or (best is not None and best[0] - low < 0.1 * best[0]):
            break
    return best


def tried_at(reader: Reader, gradient: Tensor, token: int, options: argparse.Namespace, ids: Tensor) -> list[Tried]:
    """Everything that is tried at one place."""
    points, length, table = reader.points, len(gradient), reader.model.module.get_input_embeddings().weight
    name, back = spelled(reader, int(ids[token])), str(length - 1 - token)
    found = [Tried(name, back, "moved", options.radius, reader.after(moved(points, gradient, token, options.radius)))]
    for what, most in (("near", options.radius * math.sqrt(length)), ("typed", math.inf)):
        other = retyped(reader, gradient, token, most)
        if other is None:
            found.append(Tried(name, back, f"{what}: none", math.nan, None))
            continue
        typed = points.clone()
        typed[token] = table[other[0]].detach()
        found.append(Tried(name, back, f"{what}:{spelled(reader, other[0])}", other[1], reader.after(typed)))
    if length - token <= options.far:
        crossing = flip(reader, gradient, token, options.radius)
        w2, logits = (math.inf, None) if crossing is None else crossing
        found.append(Tried(name, back, "flip W2", w2, logits))
    return found


def spelled(reader: Reader, token: int) -> str:
    return repr(reader.model.tokenizer.decode([token]))


def one_length(model: ra.AttentionModel, length: int, options: argparse.Namespace) -> list[list[str]]:
    ids = torch.tensor(text_windows(Prose(), model, tokens=length, samples=1)[0].ids[:length])
    reader = Reader.of(model, ids)
    gradient = reader.gradient_at_end(options.far) if options.end else reader.gradient()
    sizes = gradient.norm(dim=-1)
    places = [int(sizes.argmax()), *([] if options.end else [int(sizes[: length - options.far].argmax())])]
    print(f"n = {length}: of the gradient's norm, one token has {float(sizes.max() / sizes.norm()):.3f}", end="")
    if options.end:
        print(f", of that of the last {options.far}")
    else:
        print(f" and one {options.far} or more before the end {float(sizes[places[-1]] / sizes.norm()):.3f}")
    every = reader.after(moved(reader.points, gradient, None, options.radius))
    tries = [one for place in dict.fromkeys(places) for one in tried_at(reader, gradient, place, options, ids)]
    tries.append(Tried(f"last {options.far}" if options.end else "all", "", "moved", options.radius, every))
    before, rows = reader.margin(reader.logits), []
    for each in tries:
        said = ["", "", ""] if each.logits is None else outcome(reader, each.logits)
        rows.append([str(length), each.token, each.back, each.what, f"{each.w2:.3g}", f"{before:.3f}", *said])
    return rows


def outcome(reader: Reader, logits: Tensor) -> list[str]:
    margin = reader.margin(logits)
    return [f"{margin:.3f}", spelled(reader, int(logits.argmax())), "yes" if margin < 0 else "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--radius", type=float, default=0.01)
    parser.add_argument("--far", type=int, default=128)
    parser.add_argument("--end", action="store_true", help="the gradient of the last tokens alone")
    parser.add_argument("--quick", action="store_true", help="n = 160 alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = ra.load_model(options.model, dtype=torch.float32)
    rows, costs = [], []
    for length in [160] if options.quick else options.lengths:
        start = time.process_time()
        rows += one_length(model, length, options)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        costs.append(f"n = {length}: {time.process_time() - start:.0f} CPU s, peak {peak:.2f} GB")
    print_table(NAMES, rows)
    print("\n".join(costs))


if __name__ == "__main__":
    main()
