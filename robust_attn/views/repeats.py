"""Texts in which words are repeated: whether that flips a prediction, and what it does at every layer."""

from __future__ import annotations

from collections.abc import Sequence

from robust_attn.records.kinds import RepeatLayerRecord, RepeatRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import words
from robust_attn.views.layers import verdict_of
from robust_attn.views.numerals import at_least, at_most, plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.predictions import text_tables
from robust_attn.views.table import Fields, Table, counts, numbers, perhaps, table_of, texts, verdicts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, present
from robust_attn.views.words import counted, largest, sentence, share

LINES_DRAWN = 4
_TERMS = (
    ("Loss", "Cross-entropy of the clean prediction: it grows as the model becomes less sure of it."),
    ("Free", "The same number of repetitions, but spread freely over the tokens: no typed text does more."),
    ("W2", "How far the typed text is from the clean one, as a distance of their token measures."),
    ("VACUOUS", "The promise is no better than a limit that holds for any perturbation at all."),
    words.UNKNOWN,
)


def repeats_view(run: Run) -> View:
    """Repetitions that were typed, and the way through the layers of the text with all of them."""
    typed, layers = of_kind(run.records, RepeatRecord), of_kind(run.records, RepeatLayerRecord)
    return View(
        statement=_statement(typed, layers),
        tiles=_tiles(typed),
        tables=present(_typed_table(typed) if typed else None, _layer_table(layers) if layers else None),
        panels=present(_panel(typed)),
        terms=_TERMS,
        details=text_tables("The typed texts", sorted({each.sample: each.text for each in typed if each.text}.items())),
        question="do repeated words flip its predictions?",
    )


def _statement(typed: Sequence[RepeatRecord], layers: Sequence[RepeatLayerRecord]) -> Statement:
    counts = verdict_counts(map(verdict_of, layers))
    chances = [r.certified.failure_probability for r in layers if r.certified.output_change is not None]
    weak = counts[Verdict.VACUOUS]
    trivial = f"; no better than the trivial limit in {share(weak, len(layers), 'check')}" if weak else ""
    promise = (
        f"At each layer, no measure as far from the clean text as the typed one moves the output further than listed "
        f"({counted(len(layers), 'check')}, none broken{trivial})."
    )
    return Statement(
        _headline(typed, counts, len(layers)),
        (promise,) if layers and not counts[Verdict.VIOLATED] else ("Nothing is promised about these predictions.",),
        words.joint_confidence(chances, "promise") if chances else "",
        "Anything about other repetitions than those tried, or about other texts: a search that flips nothing proves "
        "nothing.",
    )


def _headline(typed: Sequence[RepeatRecord], counts: dict[Verdict, int], checks: int) -> Headline:
    if counts[Verdict.VIOLATED]:
        which = share(counts[Verdict.VIOLATED], checks, "check")
        detail = f"In {which} the output of a layer moved further than certified: do not rely on these numbers."
        return Headline(Tone.VIOLATED, "A promise about a layer was broken", detail)
    samples = {record.sample for record in typed}
    flipped = {record.sample for record in typed if record.flipped}
    most = max((record.repeats for record in typed), default=0)
    detail = f"Up to {counted(most, 'repetition')} typed into each of {counted(len(samples), 'text')}.{_losses(typed)}"
    if flipped:
        title = f"Repeating words flipped {share(len(flipped), len(samples), 'prediction')}"
        return Headline(Tone.FLIPPED, title, detail)
    if counts[Verdict.UNKNOWN] or not typed:
        which = sentence(share(counts[Verdict.UNKNOWN], checks, "check")) if checks else "Everything"
        return Headline(Tone.UNKNOWN, "Not every promise could be computed", f"{which} is unknown. {detail}")
    return Headline(Tone.MEASURED, "Repeating words flipped no prediction", detail)


def _losses(typed: Sequence[RepeatRecord]) -> str:
    highest = max(typed, key=lambda record: record.loss.typed or 0.0, default=None)
    if highest is None or highest.loss.typed is None:
        return ""
    return f" The loss rose from {plain(highest.loss.clean)} to at most {plain(highest.loss.typed)}."


def _tiles(typed: Sequence[RepeatRecord]) -> tuple[Tile, ...]:
    samples = {record.sample for record in typed}
    flipped = {record.sample for record in typed if record.flipped}
    if not samples:
        return ()
    first = min((record.repeats for record in typed if record.flipped), default=None)
    loss = at_least(largest(record.loss.typed for record in typed))
    return present(
        Tile("Flipped", f"{len(flipped)} of {len(samples)}", "predictions, by typing words again"),
        Tile("Fewest repetitions", str(first), "that flipped a prediction") if first is not None else None,
        Tile("Largest loss", loss, "of the clean prediction, over all typed texts"),
    )


def _typed_table(typed: Sequence[RepeatRecord]) -> Table:
    fields: Fields[RepeatRecord] = (
        counts("Sample", lambda record: record.sample),
        counts("Repeats", lambda record: record.repeats),
        texts("Token", lambda record: record.token, code=True),
        counts("Rank", lambda record: record.gradient_rank, optional=True),
        perhaps("W2", lambda record: record.w2_embeddings, optional=True),
        numbers("Clean loss", lambda record: record.loss.clean),
        numbers("Typed", lambda record: record.loss.typed),
        numbers("Free", lambda record: record.loss.free),
        texts("Class", _classes),
    )
    note = "Each line types one more word again: the loss of the clean prediction, typed and with repetitions free."
    return table_of("repeat-table", "Repetition by repetition", fields, typed, note=note, terminal=True)


def _classes(record: RepeatRecord) -> str:
    clean, typed = (record.prediction.get(name) for name in ("clean", "typed"))
    return f"{clean} → {typed}{' FLIPPED' if record.flipped else ''}"


def _layer_table(layers: Sequence[RepeatLayerRecord]) -> Table:
    attack = layers[0].continuous.attack
    fields: Fields[RepeatLayerRecord] = (
        counts("Sample", lambda record: record.sample),
        counts("Layer", lambda record: record.layer),
        numbers("Arrives", lambda record: record.typed.w2_input, at_least),
        numbers("Leaves", lambda record: record.typed.w2_output, at_least),
        numbers(f"{attack} arrives", lambda record: record.continuous.w2_input, at_least, optional=True),
        numbers(f"{attack} leaves", lambda record: record.continuous.w2_output, at_least),
        texts("Flipped", lambda record: "yes" if record.continuous.flipped else "no", optional=True),
        numbers("At most", lambda record: record.certified.output_change, at_most),
        texts("Certified by", lambda record: record.certified.bound, code=True, optional=True),
        verdicts(verdict_of),
    )
    note = (
        f"W2 distances at every layer: of the typed text, and of {attack} with the same distance of the embeddings; "
        "beside them what any measure at the distance of the typed text can do at most."
    )
    title = "The typed text on its way through the layers"
    return table_of("repeat-layer-table", title, fields, layers, note=note, terminal=True)


def _panel(typed: Sequence[RepeatRecord]) -> Panel | None:
    """The loss against the number of repetitions."""
    samples = sorted({record.sample for record in typed})[:LINES_DRAWN]
    if len({record.repeats for record in typed}) < 2:
        return None
    found = {sample: [record for record in typed if record.sample == sample] for sample in samples}
    lines = {
        f"sample {sample}, {way}": tuple((float(r.repeats), value) for r, value in values if value is not None)
        for sample, some in found.items()
        for way, values in (("typed", [(r, r.loss.typed) for r in some]), ("free", [(r, r.loss.free) for r in some]))
    }
    looks = {name: Look(Role.SERIES if "typed" in name else Role.REACHED, name.split(",")[0]) for name in lines}
    caption = "Solid: words typed again. Dashed: as many repetitions, spread freely. The axis of losses is logarithmic."
    return Panel(
        "repeats", "Loss against repetitions", "repetitions", "loss", lines, looks=looks, log_x=False, caption=caption
    )
