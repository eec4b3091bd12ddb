"""A classifier at one input as a tape of elementary operations, with the derivatives that a certificate reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from robust_attn.predictions.look import Look


class Operation(ABC):
    """A map f of one or two tensors. Values have no batch axis; tangents have one in front."""

    @abstractmethod
    def value(self, *at: Tensor) -> Tensor:
        """f(at)."""

    @abstractmethod
    def first(self, at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
        """Df(at)[along], batched."""

    @property
    def is_affine(self) -> bool:
        """Whether second derivatives and remainders are zero."""
        return False

    def second(self, at: Sequence[Tensor], along: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
        """D^2 f(at)[along, other], batched; symmetric in the two."""
        raise NotImplementedError

    def third(
        self,
        at: Sequence[Tensor],  # noqa: ARG002
        along: Sequence[Tensor],  # noqa: ARG002
        other: Sequence[Tensor],  # noqa: ARG002
        more: Sequence[Tensor],  # noqa: ARG002
    ) -> Tensor | None:
        """D^3 f(at)[along, other, more], batched; None where it is zero."""
        return None

    def fourth(self, at: Sequence[Tensor], *along: Sequence[Tensor]) -> Tensor | None:  # noqa: ARG002
        """D^4 f(at) along four tangents, batched; None where it is zero or left to the remainder."""
        return None

    def row_weights(self, at: Sequence[Tensor]) -> Tensor | None:  # noqa: ARG002
        """Weights with which `remainder` asks for norms of rows of its first input, if it does."""
        return None

    def interval(self, low: Sequence[Tensor], high: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Ends of intervals that contain f on the box between `low` and `high`."""
        raise NotImplementedError

    def powers(self, at: Sequence[Tensor], look: Look) -> Tensor | None:  # noqa: ARG002
        """Half axes of an ellipsoid that contains `third` / 6 and `fourth` / 24 along y; None where both are zero."""
        return None

    def remainder(self, at: Sequence[Tensor], look: Look) -> Tensor:
        """Half axes m >= 0 of an ellipsoid {m * u: |u| <= 1} that contains f(at + d) - f - Df d minus

            D^2 f[y, y] / 2 + D^2 f[y, s + h - c] + D^2 f[s, s] / 2 + D^2 f[s, h - k]
            + D^3 f[y, y, y] / 6 + D^3 f[y, y, s + h - k] / 2 + `fourth` / 24 along y,      d = y + s + h,

        for all deviations d whose parts are as `look` says.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Node:
    """One operation, the nodes that it reads, its value at the clean input, and the step of the model it belongs to."""

    operation: Operation | None
    parents: tuple[int, ...]
    value: Tensor
    step: str
    block: int

    @property
    def is_curved(self) -> bool:
        """Whether it has a remainder."""
        return self.operation is not None and not self.operation.is_affine


@dataclass(eq=False)
class Tape:
    """Nodes in the order of computation; node 0 is the input and the last one the logits."""

    nodes: list[Node] = field(default_factory=list)
    step: str = "input"
    block: int = 0

    def input(self, value: Tensor) -> int:
        """The perturbed tensor."""
        self.nodes.append(Node(None, (), value, self.step, self.block))
        return len(self.nodes) - 1

    def add(self, operation: Operation, *parents: int) -> int:
        """A further node, evaluated at once."""
        value = operation.value(*(self.nodes[parent].value for parent in parents))
        self.nodes.append(Node(operation, parents, value, self.step, self.block))
        return len(self.nodes) - 1

    def value(self, node: int) -> Tensor:
        """What the node is at the clean input."""
        return self.nodes[node].value

    @property
    def logits(self) -> Tensor:
        """The last value."""
        return self.nodes[-1].value

    def replayed(self, points: Tensor) -> list[Tensor]:
        """Values of all nodes at another input, by the same operations."""
        values: list[Tensor] = []
        for node in self.nodes:
            read = (values[parent] for parent in node.parents)
            values.append(points if node.operation is None else node.operation.value(*read))
        return values

    def at(self, node: Node) -> list[Tensor]:
        """Values of what a node reads."""
        return [self.nodes[parent].value for parent in node.parents]

    @property
    def last_use(self) -> list[int]:
        """For every node the last one that reads it."""
        last = list(range(len(self.nodes)))
        for index, node in enumerate(self.nodes):
            for parent in node.parents:
                last[parent] = max(last[parent], index)
        return last

    @property
    def functionals(self) -> int:
        """Numbers that go into and come out of curved operations: an upper value for how many are looked at."""
        curved = [node for node in self.nodes if node.is_curved]
        return sum(node.value.numel() + sum(value.numel() for value in self.at(node)) for node in curved)
