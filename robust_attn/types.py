"""Words shared by every part: what went wrong, and what a comparison of attack and certificate says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from html import escape

LARGEST_SEED = 2**32 - 1
"""Seeds are whole numbers from 0 to this one: torch's generator on the CPU keeps 32 bits and forgets the rest."""


class UserError(ValueError):
    """The request cannot be served as written; the message is one sentence for whoever typed it (exit status 2)."""


class FieldError(UserError):
    """A value that an object cannot be made with: `field` is what it has to do with, `problem` says what is wrong.

    The message is in the library's words; whoever read the value from a setting can say which (`of_setting`).
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field, self.problem = field, problem

    def of_setting(self, group: str) -> UserError:
        """The same about the setting `group.field`."""
        return UserError(f"{group}.{self}")


class ExitStatus(IntEnum):
    """Exit statuses of the command line, fixed by the contract."""

    OK = 0
    FAILED = 1
    WRONG_CONFIGURATION = 2
    VIOLATED = 3
    FAIL_IF = 4

    @classmethod
    def worst(cls, statuses: Collection[ExitStatus]) -> ExitStatus:
        """What counts where there are several: first what is false, then what was not done, then what is unwanted."""
        order = (cls.VIOLATED, cls.FAILED, cls.WRONG_CONFIGURATION, cls.FAIL_IF)
        return next((status for status in order if status in statuses), cls.OK)


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and in one sentence why if not well."""

    status: ExitStatus
    message: str | None = None


class RunState(StrEnum):
    """How far a run came, as its summary says."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Verdict(StrEnum):
    """What an observed output change says about a certified one."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    VACUOUS = "VACUOUS"
    UNKNOWN = "UNKNOWN"


class Scope(StrEnum):
    """For which inputs a bound speaks: a whole ball, the tokens given, a ball around them, any measure near, or such
    measures near as have no light pieces.
    """

    GLOBAL = "global"
    LOCAL = "local"
    BALL = "ball"
    MEASURES = "measures"
    PIECES = "pieces"


class Side(StrEnum):
    """Whether a bound is one from above (fit for certificates) or from below (shows how much is lost)."""

    UPPER = "upper"
    LOWER = "lower"


class Covers(StrEnum):
    """Against which perturbations within a budget a certificate holds.

    ATOMS: displacements of these tokens. COPIES: displacements of the pieces that the tokens were written as. CONTEXT:
    tokens split into pieces of at least one part in `context`. MEASURES: any measure within the budget's W2 distance
    and support, tokens split at will. INPUTS: any tokens in a ball.
    """

    ATOMS = "atoms"
    COPIES = "copies"
    CONTEXT = "context"
    MEASURES = "measures"
    INPUTS = "inputs"


def counted(count: int, noun: str) -> str:
    """A number with its noun in the right number: 1 check, 2 searches, 3 quantities."""
    ending = "ies" if noun.endswith("y") else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{count} {noun if count == 1 else noun.removesuffix('y') + ending if ending == 'ies' else noun + ending}"


def as_html(title: str, facts: Mapping[str, object]) -> str:
    """A result as a notebook shows it: a small table of what it says."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(_short(value))}</td></tr>" for name, value in facts.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
