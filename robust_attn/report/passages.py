"""The samples as text, each token with how far an attack moved it and whether it was split."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.load import Run
from robust_attn.report.numerals import at_least, finite, integer_at, percent
from robust_attn.report.rows import Row, ranks_in_layer

SAMPLES_SHOWN = 6
"""Samples of a layer that are shown."""
TOKENS_SHOWN = 6000
"""Tokens on the page, all samples together: each takes some 200 bytes."""
TOKENS_OF_A_SAMPLE = 512
MOST_MOVED = 5
PARTED = 0.01
"""Parts count as split apart from this share of the sample's largest motion on; below that it is arithmetic."""
_FIELDS = ("rms", "apart", "farthest", "share", "parts")
_CONTINUED = "##"
_NO_SPACE_BEFORE = frozenset(".,;:!?)]}'’”%")


@dataclass(frozen=True)
class Token:
    """One token: what it reads, whether a space comes before it, and its motion (see `robust_attn.motion`)."""

    place: int
    text: str
    spaced: bool
    rms: float
    apart: float
    farthest: float
    share: float
    parts: int
    strength: float
    """Its rms motion as a share of the largest in its sample."""
    split: bool

    @property
    def mark(self) -> str:
        """How it was split: into how many copies, or which share of it was sent away; nothing if it was not."""
        if not self.split:
            return ""
        return percent(self.share) if self.share < 0.9 / self.parts else f"×{self.parts}"

    @property
    def words(self) -> str:
        """The motion in words, for the hover."""
        moved = f"token {self.place} moved {at_least(self.rms)}"
        if not self.split:
            return moved
        return (
            f"{moved}, split into {self.parts} parts that went {at_least(self.apart)} apart; "
            f"the farthest, {percent(self.share)} of the token, went {at_least(self.farthest)}"
        )


@dataclass(frozen=True)
class Passage:
    """One sample as one layer's attack moved it; `hidden` counts the tokens at its end that are not shown."""

    layer: int
    sample: int
    attack: str
    tokens: tuple[Token, ...]
    most: tuple[Token, ...]
    hidden: int

    @property
    def together(self) -> bool:
        """Whether tokens were written as copies and none of these parted: moving whole tokens was at least as good."""
        return any(token.parts > 1 for token in self.tokens) and not any(token.split for token in self.tokens)


@dataclass(frozen=True)
class Passages:
    """Passages by layer; `worded` is whether their text is known, `hidden` how many are left out."""

    by_layer: dict[int, tuple[Passage, ...]]
    worded: bool
    hidden: int

    @property
    def every(self) -> tuple[Passage, ...]:
        """All of them, in order of layers."""
        return tuple(passage for passages in self.by_layer.values() for passage in passages)


def passages_of(run: Run, records: Sequence[dict[str, Any]], rows: Sequence[Row]) -> Passages:
    """Of each layer the worst samples, as many as fit on a page; nothing where no motion was recorded.

    `rows` are those of the records, in the same order.
    """
    known = ((record, row) for record, row in zip(records, rows, strict=True) if row.layer is not None)
    moved = [(record, row) for record, row in known if _motion(record)]
    chosen: defaultdict[int, list[Passage]] = defaultdict(list)
    for record in _fitting(moved):
        passage = _passage(record, _spelled(run.inputs or {}, record))
        chosen[passage.layer].append(passage)
    by_layer = {layer: tuple(sorted(chosen[layer], key=lambda one: one.sample)) for layer in sorted(chosen)}
    shown = sum(map(len, by_layer.values()))
    worded = any(_spelled(run.inputs or {}, record) for record, _ in moved)
    return Passages(by_layer, worded, len(moved) - shown)


def _fitting(pairs: Sequence[tuple[dict[str, Any], Row]]) -> Iterator[dict[str, Any]]:
    """The worst of every layer, then the second of every layer and so on, until the page is full."""
    ranked = ranks_in_layer([row for _, row in pairs])
    room = TOKENS_SHOWN
    for rank in range(SAMPLES_SHOWN):
        for record in (pair[0] for pair, place in zip(pairs, ranked, strict=True) if place == rank):
            room -= min(len(_motion(record)["rms"]), TOKENS_OF_A_SAMPLE)
            if room < 0:
                return
            yield record


def _motion(record: Mapping[str, Any]) -> dict[str, list[float]]:
    """The five lists of a record's motion if they are whole: equally long, numbers throughout. Else nothing."""
    motion = record.get("motion")
    if not isinstance(motion, dict):
        return {}
    lists = {name: values for name in _FIELDS if isinstance(values := motion.get(name), list)}
    known = {name: [one for one in map(finite, values) if one is not None] for name, values in lists.items()}
    lengths = {len(values) for values in (*lists.values(), *known.values())}
    return known if len(known) == len(_FIELDS) and len(lengths) == 1 and 0 not in lengths else {}


def _spelled(inputs: Mapping[str, Any], record: Mapping[str, Any]) -> list[str] | None:
    """The tokens of the record's sample, if they are known and as many as moved."""
    samples, sample = inputs.get(str(record.get("tokens"))), record.get("sample")
    if not isinstance(samples, list) or not isinstance(sample, int) or not 0 <= sample < len(samples):
        return None
    tokens = samples[sample]
    fits = isinstance(tokens, list) and len(tokens) == len(_motion(record)["rms"])
    return [str(token) for token in tokens] if fits else None


def _passage(record: dict[str, Any], spelled: Sequence[str] | None) -> Passage:
    motion = _motion(record)
    texts = list(map(str, range(len(motion["rms"])))) if spelled is None else spelled
    tokens = tuple(_tokens(motion, texts))
    return Passage(
        layer=integer_at(record, "layer") or 0,
        sample=integer_at(record, "sample") or 0,
        attack=str(record.get("attack") or ""),
        tokens=tokens[:TOKENS_OF_A_SAMPLE],
        most=tuple(token for token in sorted(tokens, key=lambda token: -token.rms)[:MOST_MOVED] if token.rms > 0),
        hidden=max(0, len(tokens) - TOKENS_OF_A_SAMPLE),
    )


def _tokens(motion: Mapping[str, Sequence[float]], texts: Sequence[str]) -> Iterator[Token]:
    largest = max(motion["rms"])
    spaces_inside = any(text[:1].isspace() for text in texts)  # byte-level tokens carry the space before them
    for place, text in enumerate(texts):
        rms, apart, farthest, share, parts = (motion[name][place] for name in motion)
        continued = text.startswith(_CONTINUED) and len(text) > len(_CONTINUED)
        glued = spaces_inside or continued or text[:1] in _NO_SPACE_BEFORE
        yield Token(
            place=place,
            text=_visible(text.removeprefix(_CONTINUED) if continued else text),
            spaced=place > 0 and (text[:1].isspace() or not glued),
            rms=rms,
            apart=apart,
            farthest=farthest,
            share=share,
            parts=int(parts),
            strength=rms / largest if largest > 0 else 0.0,
            split=parts > 1 and apart > PARTED * largest,
        )


def _visible(text: str) -> str:
    """A token that has something to see: line ends and blanks are shown as signs, spaces around words left out."""
    return text.strip() or text.replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣") or "∅"
