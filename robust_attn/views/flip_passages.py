"""The smallest flips as text: how far each token went, and the word that flips the prediction alone."""

from __future__ import annotations

from collections.abc import Sequence

from robust_attn.records.kinds import PredictionRecord
from robust_attn.records.parts import Motion
from robust_attn.records.quantities import place_of
from robust_attn.views.numerals import at_most
from robust_attn.views.passages import SAMPLES_SHOWN, Passage, Passages, passage_of
from robust_attn.views.table import Fields, Table, counts, table_of, texts


def flip_passages(records: Sequence[PredictionRecord]) -> Passages | None:
    """The nearest flips by moving tokens, nearest first; None where no motion was recorded."""
    moved = [(record, motion) for record in records if (motion := record.flip.motion) and motion.whole and motion.rms]
    moved.sort(key=lambda pair: _radius(pair[0]))
    passages = tuple(_passage(record, motion) for record, motion in moved[:SAMPLES_SHOWN])
    worded = any(record.spelled for record, _ in moved)
    return Passages({0: passages}, worded, len(moved) - len(passages), 0, whole=True) if passages else None


def typed_table(records: Sequence[PredictionRecord]) -> tuple[Table, ...]:
    """Flips by edits that a person could type; nothing where none was looked for."""
    tried = [record for record in records if record.typed is not None]
    fields: Fields[PredictionRecord] = (
        texts("Where", place_of),
        counts("Edits", lambda record: record.typed.edits if record.typed else None),
        texts("What", lambda record: "; ".join(record.typed.what) if record.typed else None),
        texts("Text that flips it", lambda record: record.typed.text if record.typed else None),
        counts("Texts read", lambda record: record.typed.reads if record.typed else None),
    )
    note = "The fewest edits found that change the prediction; a dash where none did. No certificate speaks of typing."
    return (table_of("typed-text-table", "Flips by typing", fields, tried, note=note),) if tried else ()


def _radius(record: PredictionRecord) -> float:
    return record.flip_radius.get("move") or float("inf")


def _passage(record: PredictionRecord, motion: Motion) -> Passage:
    radius = record.flip_radius.get("move")
    how = f"flips at {at_most(radius)} by moving all tokens" if radius is not None else "moved by the attack"
    alone = record.flip_radius.get("one_word")
    place = record.flip.word
    if alone is not None and place is not None and record.spelled and 0 <= place < len(record.spelled):
        how += f", at {at_most(alone)} by moving “{record.spelled[place].strip()}” alone"
    return passage_of(record, motion, record.spelled, how)
