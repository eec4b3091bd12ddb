"""Why an attention layer cannot be written as an AttentionLayer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The kinds of refusal, as a reader is told them."""

    SOFTCAP = "logits are capped (softcap)"
    SINKS = "attention sinks"
    BIAS = "what is added to the logits depends on the tokens"
    MASK = "a mask that is neither none, causal nor a sliding window"
    CROSS = "cross attention: keys come from another input than queries"
    POOL = "a pooling head: one query of its own looks at all tokens"
    REDUCED = "keys are made of fewer tokens than queries"
    INPUTS = "queries, keys and values are made from different inputs"
    LATENT = "latent projections: a projection of a projection"
    NORMALISED = "queries or keys are normalised"
    VALUES = "values are not a linear map of the input"
    NOT_AFFINE = "queries or keys are not affine in the input"
    ROTATION = "queries and keys change with the position, but not by planar rotations"
    OUTPUT = "the output is gated, normalised or otherwise changed before it is projected"
    SHAPE = "tokens do not come as [samples, tokens, width]"
    DIFFERS = "taken out, it differs from the model's own forward pass"
    BYPASS = "no scaled product was seen, neither in transformers' attention interface nor beside it"
    NO_ATTENTION = "no attention"


class LayerRefusedError(Exception):
    """One call of the attention function that is no AttentionLayer."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Refusal:
    """A refused layer: the module that called, why, and what was seen."""

    module: str
    reason: Reason
    said: str
