"""The samples as text, each token with how far an attack moved it and whether it was split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.records.kinds import AttackRecord, Record
from robust_attn.records.parts import Motion
from robust_attn.views.layers import concern, ranks_in_layer
from robust_attn.views.numerals import at_least, percent
from robust_attn.views.table import Fields, Table, counts, numbers, table_of, texts

SAMPLES_SHOWN = 6
"""Samples of a layer that are shown."""
TOKENS_SHOWN = 6000
"""Tokens on the page, all samples together: each takes some 200 bytes."""
TOKENS_OF_A_SAMPLE = 512
MOST_MOVED = 5
PARTED = 0.01
"""Pieces count as split apart from this share of the sample's largest motion on; below that it is arithmetic."""
NOTHING = Motion(rms=(), apart=(), farthest=(), share=(), parts=())
_CONTINUED = "##"
_NO_SPACE_BEFORE = frozenset(".,;:!?)]}'’”%")


@dataclass(frozen=True)
class Token:
    """One token: what it reads, whether a space comes before it, and its motion."""

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
            f"{moved}, split into {self.parts} pieces that went {at_least(self.apart)} apart; "
            f"the farthest, {percent(self.share)} of the token, went {at_least(self.farthest)}"
        )


@dataclass(frozen=True)
class Passage:
    """One sample as one layer's attack moved it; `hidden` counts the tokens at its end that are not shown."""

    layer: int
    sample: int
    named: str
    """Its row with the label where it is one of data, else its number, in words."""
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
    """Passages by layer, `first` the one to show; `worded` is whether their text is known, `hidden` counts the rest."""

    by_layer: Mapping[int, tuple[Passage, ...]]
    worded: bool
    hidden: int
    first: int
    whole: bool = False
    """Whether they speak of a whole model, so that there is one layer in name only."""

    @property
    def every(self) -> tuple[Passage, ...]:
        """All of them, in order of layers."""
        return tuple(passage for passages in self.by_layer.values() for passage in passages)

    @property
    def table(self) -> Table:
        """The tokens that moved most."""
        fields: Fields[tuple[Passage, Token]] = (
            counts("Layer", lambda pair: None if self.whole else pair[0].layer, optional=True),
            texts("Sample", lambda pair: pair[0].named.removeprefix("sample ")),
            counts("Place", lambda pair: pair[1].place),
            texts("Token", lambda pair: pair[1].text, code=True),
            numbers("Moved (rms)", lambda pair: pair[1].rms, at_least),
            counts("Pieces", lambda pair: pair[1].parts),
            numbers("Pieces apart", lambda pair: pair[1].apart, at_least),
            numbers("Farthest piece", lambda pair: pair[1].farthest, at_least),
            numbers("Its share", lambda pair: pair[1].share, percent),
        )
        moved = [(passage, token) for passage in self.every for token in passage.most]
        return table_of("token-table", "The tokens that moved most", fields, moved)


def passages_of(checks: Sequence[AttackRecord], inputs: Mapping[str, Any]) -> Passages | None:
    """Of each layer the worst samples, as many as fit on a page; None where no motion was recorded.

    `inputs` are the tokens of the samples by number of tokens.
    """
    moved = [check for check in checks if check.layer is not None and _motion(check)]
    chosen: defaultdict[int, list[Passage]] = defaultdict(list)
    for check in _fitting(moved):
        passage = passage_of(check, check.motion or NOTHING, _spelled(inputs, check), check.attack)
        chosen[passage.layer].append(passage)
    by_layer = {layer: tuple(sorted(chosen[layer], key=lambda one: one.sample)) for layer in sorted(chosen)}
    shown = sum(map(len, by_layer.values()))
    worded = any(_spelled(inputs, check) for check in moved)
    first = max(moved, key=concern).layer if moved else None
    return Passages(by_layer, worded, len(moved) - shown, first or 0) if by_layer else None


def _fitting(checks: Sequence[AttackRecord]) -> Iterator[AttackRecord]:
    """The worst of every layer, then the second of every layer and so on, until the page is full."""
    ranked = ranks_in_layer(checks)
    room = TOKENS_SHOWN
    for rank in range(SAMPLES_SHOWN):
        for check in (check for check, place in zip(checks, ranked, strict=True) if place == rank):
            room -= min(len(check.motion.rms) if check.motion else 0, TOKENS_OF_A_SAMPLE)
            if room < 0:
                return
            yield check


def _motion(check: AttackRecord) -> Motion | None:
    """Its motion, if that is whole."""
    return check.motion if check.motion and check.motion.whole and check.motion.rms else None


def _spelled(inputs: Mapping[str, Any], check: AttackRecord) -> list[str] | None:
    """The tokens of the record's sample, if they are known and as many as moved."""
    samples, motion = inputs.get(str(check.tokens)), _motion(check)
    if not isinstance(samples, list) or motion is None or not 0 <= check.sample < len(samples):
        return None
    tokens = samples[check.sample]
    fits = isinstance(tokens, list) and len(tokens) == len(motion.rms)
    return [str(token) for token in tokens] if fits else None


def passage_of(record: Record, motion: Motion, spelled: Sequence[str] | None, attack: str) -> Passage:
    """A sample as it moved; tokens go by their numbers where their words are not known."""
    fits = spelled is not None and len(spelled) == len(motion.rms)
    texts = spelled if spelled is not None and fits else list(map(str, range(len(motion.rms))))
    tokens = tuple(_tokens(motion, texts))
    return Passage(
        layer=record.layer or 0,
        sample=record.sample,
        named=record.named if record.label is None else f"{record.named}, label {record.label}",
        attack=attack,
        tokens=tokens[:TOKENS_OF_A_SAMPLE],
        most=tuple(token for token in sorted(tokens, key=lambda token: -token.rms)[:MOST_MOVED] if token.rms > 0),
        hidden=max(0, len(tokens) - TOKENS_OF_A_SAMPLE),
    )


def _tokens(motion: Motion, texts: Sequence[str]) -> Iterator[Token]:
    lists = (motion.rms, motion.apart, motion.farthest, motion.share)
    moved = [tuple(value or 0.0 for value in values) for values in zip(*lists, strict=True)]
    largest = max((rms for rms, *_ in moved), default=0.0)
    spaces_inside = any(text[:1].isspace() for text in texts)  # byte-level tokens carry the space before them
    for place, (read, (rms, apart, farthest, share), parts) in enumerate(zip(texts, moved, motion.parts, strict=True)):
        continued = read.startswith(_CONTINUED) and len(read) > len(_CONTINUED)
        glued = spaces_inside or continued or read[:1] in _NO_SPACE_BEFORE
        yield Token(
            place=place,
            text=_visible(read.removeprefix(_CONTINUED) if continued else read),
            spaced=place > 0 and (read[:1].isspace() or not glued),
            rms=rms,
            apart=apart,
            farthest=farthest,
            share=share,
            parts=parts,
            strength=rms / largest if largest > 0 else 0.0,
            split=parts > 1 and apart > PARTED * largest,
        )


def _visible(text: str) -> str:
    """A token that has something to see: line ends and blanks are shown as signs, spaces around words left out."""
    return text.strip() or text.replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣") or "∅"
