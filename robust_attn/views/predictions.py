"""Predictions of a whole classifier: which were flipped, how near the nearest flip is, and what is promised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from robust_attn.records.kinds import Check, LayerRecord, PredictionRecord
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import words
from robust_attn.views.checks import ladder_details
from robust_attn.views.layers import layers_panel, shown_first, verdict_of
from robust_attn.views.numerals import at_least, at_most, percent, plain
from robust_attn.views.panel import Look, Panel, Point, Role
from robust_attn.views.table import (
    ROWS_SHOWN,
    Field,
    Fields,
    Table,
    counts,
    numbers,
    perhaps,
    table_of,
    texts,
    verdicts,
)
from robust_attn.views.view import Headline, Statement, Tile, Tone, View
from robust_attn.views.words import counted, largest, sentence, share, smallest

SAMPLES_DRAWN = 40
TEXTS_SHOWN, CHARACTERS = 8, 400
WAYS = {"move": "moving tokens", "split": "splitting tokens", "one_word": "changing one word", "typed": "typing"}
_TERMS = (
    ("Margin", "How much the model prefers its answer to the next best one, in logits; below zero it is flipped."),
    ("Flip radius", "The smallest perturbation found that changes the prediction. A smaller one may exist."),
    ("Certified radius", "Nothing within this distance changes the prediction: proved, not searched for."),
    ("FLIPPED", "The attack changed the prediction."),
    ("VIOLATED", "A flip was found nearer than certified: something is wrong, and this must be looked into."),
    ("VACUOUS", "The promise about a layer is no better than one that holds for any perturbation whatsoever."),
    words.UNKNOWN,
)
Radii = Callable[[PredictionRecord], Mapping[str, float | None]]


def predictions_view(run: Run) -> View:
    """Attacks on whole predictions."""
    predictions = [record for record in run.records if isinstance(record, PredictionRecord)]
    layers = [record for record in run.records if isinstance(record, LayerRecord)]
    panels = (_flips_panel(predictions), layers_panel(layers))
    return View(
        statement=_statement(predictions, layers),
        tiles=_tiles(predictions, layers),
        tables=(
            *((_prediction_table(predictions),) if predictions else ()),
            *((_layer_table(layers),) if layers else ()),
        ),
        panels=tuple(panel for panel in panels if panel is not None),
        terms=_TERMS,
        details=(*ladder_details(layers), *_texts(predictions)),
        question="can its predictions be flipped?",
    )


def was_flipped(record: PredictionRecord) -> bool:
    """Whether the attack flipped the prediction: within its budget, or where none was tried, at any radius."""
    return record.smallest_flip is not None if record.attacked is None else record.attacked.flipped


def smallest_radii(records: Iterable[PredictionRecord], radii: Radii) -> dict[str, float]:
    """The smallest known radius by each way, in the order in which ways first appear."""
    every = list(records)
    ways = dict.fromkeys(way for record in every for way in radii(record))
    found = {way: smallest(radii(record).get(way) for record in every) for way in ways}
    return {way: radius for way, radius in found.items() if radius is not None}


def _flips(record: PredictionRecord) -> Mapping[str, float | None]:
    return record.flip_radius


def _certificates(record: PredictionRecord) -> Mapping[str, float | None]:
    return record.certified_radius


def _statement(predictions: Sequence[PredictionRecord], layers: Sequence[LayerRecord]) -> Statement:
    chances = [record.failure_probability for record in predictions if smallest_radii([record], _certificates)]
    of_layers = [r.certified.failure_probability for r in layers if r.certified.output_change is not None]
    known = [*chances, *of_layers]
    said = (_promise(predictions), _layer_promise(layers))
    return Statement(
        _headline(predictions, layers),
        tuple(part for part in said if part),
        words.joint_confidence(known, "promise") if known else "",
        "That there is no smaller flip than those found: an attack that finds none proves nothing. Anything about "
        "other inputs than those tested.",
    )


def _headline(predictions: Sequence[PredictionRecord], layers: Sequence[LayerRecord]) -> Headline:
    """What happened to the predictions; a broken promise comes first, a flip before what could not be computed."""
    broken = sum(record.verdict is Verdict.VIOLATED for record in predictions)
    total = len(predictions)
    if broken:
        detail = (
            f"{sentence(share(broken, total, 'prediction'))} flipped nearer than certified. The certificate, or the "
            "code that computed it, is wrong: do not rely on these numbers."
        )
        return Headline(Tone.VIOLATED, "A certified prediction was flipped", detail)
    broken = sum(record.verdict is Verdict.VIOLATED for record in layers)
    if broken:
        detail = f"In {share(broken, len(layers), 'check')} the output of a layer moved further than certified."
        return Headline(Tone.VIOLATED, "A promise about a layer was broken", detail)
    flipped = sum(map(was_flipped, predictions))
    if flipped:
        return Headline(Tone.FLIPPED, _flipped_title(flipped, total), _nearest(predictions))
    unknown = any(record.judged is Verdict.UNKNOWN for record in predictions)
    if unknown or any(verdict_of(record) is Verdict.UNKNOWN for record in layers) or not predictions:
        detail = "No flip was found, but a number was not finite, or rounding could decide: nothing is promised there."
        return Headline(Tone.UNKNOWN, "Not every promise could be computed", detail)
    if all(_kept(record) for record in predictions):
        detail = f"{sentence(share(total, total, 'prediction'))} kept, by proof, within the whole budget."
        return Headline(Tone.HOLDS, "No prediction can be flipped within the budget", detail)
    detail = (
        f"The attack failed on {share(total, total, 'prediction')}; a stronger one may succeed.{_found(predictions)}"
    )
    return Headline(Tone.MEASURED, "No prediction was flipped", detail)


def _kept(record: PredictionRecord) -> bool:
    """Whether the whole budget lies within a certified radius."""
    certified, asked = largest(record.certified_radius.values()), record.budget.radius
    return certified is not None and asked is not None and certified >= asked and record.verdict is Verdict.HOLDS


def _flipped_title(flipped: int, total: int) -> str:
    if total == 1:
        return "The prediction was flipped"
    return f"{flipped} of {total} predictions were flipped"


def _nearest(predictions: Sequence[PredictionRecord]) -> str:
    """By how small a perturbation, in every way that was tried."""
    budget = predictions[0].budget
    attacked = any(record.attacked is not None for record in predictions)
    asked = f"Within {budget.kind} {plain(budget.radius)}, by {predictions[0].attack}." if attacked else ""
    return f"{asked}{_found(predictions)}".strip()


def _found(predictions: Sequence[PredictionRecord]) -> str:
    radii = smallest_radii(predictions, _flips)
    if not radii:
        return ""
    told = [f"{at_most(radius)} by {way_words(way)}" for way, radius in radii.items()]
    norm = words.norm_words(predictions[0].budget)
    ratio = (
        f": splitting needs {plain(radii['move'] / radii['split'])} times less"
        if radii.get("split") and radii.get("move", 0.0) > 2 * radii["split"]
        else ""
    )
    return f" The nearest flip found: {', '.join(told)} ({norm}){ratio}."


def way_words(way: str) -> str:
    """A way to attack, in words."""
    return WAYS.get(way, way)


def _promise(predictions: Sequence[PredictionRecord]) -> str:
    if any(record.verdict is Verdict.VIOLATED for record in predictions):
        return "Nothing is promised: a certificate that an attack has broken does not certify."
    radii = smallest_radii(predictions, _certificates)
    if not radii:
        return (
            "Nothing is promised about these predictions: no radius was certified, and an attack can only show what is "
            "possible."
        )
    certified = [record for record in predictions if smallest_radii([record], _certificates)]
    told = [f"{at_least(radius)} ({_spaced(name)})" for name, radius in radii.items()]
    return (
        f"{sentence(share(len(certified), len(predictions), 'prediction'))} certified: no perturbation within the "
        f"radius listed flips it. The smallest such radius is {', '.join(told)}."
    )


def _layer_promise(layers: Sequence[LayerRecord]) -> str:
    counts = verdict_counts(map(verdict_of, layers))
    if not layers or counts[Verdict.VIOLATED]:
        return ""
    weak, unknown = counts[Verdict.VACUOUS], counts[Verdict.UNKNOWN]
    notes = (
        f"no better than the trivial limit in {share(weak, len(layers), 'check')}" if weak else "",
        f"not known in {share(unknown, len(layers), 'check')}" if unknown else "",
    )
    said = "; ".join(note for note in notes if note)
    return (
        f"On the way through the model no layer moved its output further than certified for the change that arrived "
        f"there ({counted(len(layers), 'check')}{'; ' + said if said else ''})."
    )


def _tiles(predictions: Sequence[PredictionRecord], layers: Sequence[LayerRecord]) -> tuple[Tile, ...]:
    cells = []
    if predictions:
        flipped = sum(map(was_flipped, predictions))
        budget = predictions[0].budget
        meaning = f"predictions, within {budget.kind} {plain(budget.radius)}"
        cells.append(Tile("Flipped", f"{flipped} of {len(predictions)}", meaning))
    for way, radius in smallest_radii(predictions, _flips).items():
        cells.append(
            Tile(f"Nearest flip by {way_words(way)}", at_most(radius), "smallest radius found, over all inputs")
        )
    for name, radius in smallest_radii(predictions, _certificates).items():
        cells.append(Tile(f"Certified ({_spaced(name)})", at_least(radius), "nothing nearer flips, by proof"))
    if layers:
        closest = percent(largest(record.tightness for record in layers))
        cells.append(Tile("Closest layer", closest, "of what is promised about its output"))
    return tuple(cells)


def _prediction_table(predictions: Sequence[PredictionRecord]) -> Table:
    ways = [_way_field(way) for way in smallest_radii(predictions, _flips)]
    proofs = [_proof_field(name) for name in smallest_radii(predictions, _certificates)]
    fields: Fields[PredictionRecord] = (
        counts("Sample", lambda record: record.sample if record.row is None else record.row),
        texts("Label", lambda record: None if record.label is None else str(record.label), optional=True),
        counts("Class", lambda record: record.predicted),
        perhaps("Margin", lambda record: record.margin, optional=True),
        texts("Attacked", _outcome),
        perhaps("Its margin", lambda record: record.attacked.margin if record.attacked else None, optional=True),
        *ways,
        perhaps("Smallest mass", lambda record: record.flip.smallest_mass, at_least, optional=True),
        *proofs,
        verdicts(lambda record: record.verdict, optional=True),
    )
    budget = predictions[0].budget
    note = (
        f"The class that the model gives to the input, what the attack made of it within {budget.kind} "
        f"{plain(budget.radius)}, and the smallest radius found at which the class changes (rounded up)."
    )
    return table_of("prediction-table", "Prediction by prediction", fields, predictions, note=note, terminal=True)


def _way_field(way: str) -> Field[PredictionRecord]:
    title = f"Flips by {way_words(way).removesuffix(' tokens')} at"
    return perhaps(title, lambda record: record.flip_radius.get(way), at_most)


def _proof_field(name: str) -> Field[PredictionRecord]:
    return perhaps(f"Certified ({_spaced(name)})", lambda record: record.certified_radius.get(name), at_least)


def _outcome(record: PredictionRecord) -> str | None:
    attacked = record.attacked
    return None if attacked is None else f"{attacked.predicted} FLIPPED" if attacked.flipped else "kept"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _layer_table(layers: Sequence[LayerRecord]) -> Table:
    fields: Fields[Check] = (
        counts("Sample", lambda record: record.sample),
        counts("Layer", lambda record: record.layer),
        perhaps("Arrives", lambda record: record.observed.input_change, at_least),
        numbers("Leaves", lambda record: record.observed.output_change, at_least),
        perhaps("Gain", lambda record: record.observed.gain, at_least, optional=True),
        numbers("At most", lambda record: record.certified.output_change, at_most),
        texts("Certified by", lambda record: record.certified.bound, code=True),
        numbers("Tightness", lambda record: record.tightness, percent),
        verdicts(verdict_of),
    )
    note = (
        "How large the change is when it arrives at a layer and when it leaves, in the norm of the budget, and what "
        "the layer is certified to make of it at most."
    )
    title, shown = "The change on its way through the model", shown_first(layers, ROWS_SHOWN)
    return table_of("way-table", title, fields, shown, note=note, terminal=True, total=len(layers))


def _flips_panel(predictions: Sequence[PredictionRecord]) -> Panel | None:
    """Sample by sample the nearest flip in every way, and what is certified; the attack's budget as a line."""
    drawn = predictions[:SAMPLES_DRAWN]
    lines: dict[str, tuple[Point, ...]] = {}
    looks: dict[str, Look] = {}
    for way in smallest_radii(drawn, _flips):
        name = f"flips by {way_words(way)}"
        lines[name], looks[name] = _points(record.flip_radius.get(way) for record in drawn), Look(Role.NEAREST, name)
    for proof in smallest_radii(drawn, _certificates):
        name = f"certified ({_spaced(proof)})"
        lines[name], looks[name] = _points(r.certified_radius.get(proof) for r in drawn), Look(Role.CERTIFIED)
    if not any(lines.values()):
        return None
    many = f" The first {len(drawn)} of {len(predictions)} are drawn." if len(predictions) > len(drawn) else ""
    return Panel(
        "flips",
        "How near the nearest flip is",
        "input",
        "radius",
        lines,
        looks=looks,
        categories=tuple(f"sample {record.sample if record.row is None else record.row}" for record in drawn),
        level=predictions[0].budget.radius,
        caption="The smallest perturbation found that changes each prediction, in the norm of the budget; the dashed "
        f"line is the budget of the attack. The axis is logarithmic.{many}",
    )


def _points(radii: Iterable[float | None]) -> tuple[Point, ...]:
    return tuple((float(place), radius) for place, radius in enumerate(radii) if radius is not None and radius > 0)


def _texts(predictions: Sequence[PredictionRecord]) -> tuple[Table, ...]:
    return text_tables("The texts", [(record.sample, record.text) for record in predictions if record.text])


def text_tables(title: str, samples: Sequence[tuple[int, str]]) -> tuple[Table, ...]:
    """A few texts with the numbers of their samples; none where there are none."""
    fields: Fields[tuple[int, str]] = (
        counts("Sample", lambda pair: pair[0]),
        texts("Text", lambda pair: shortened(pair[1])),
    )
    return (table_of("text-table", title, fields, samples, limit=TEXTS_SHOWN),) if samples else ()


def shortened(whole: str) -> str:
    """A text that fits on a page."""
    return whole if len(whole) <= CHARACTERS else whole[: CHARACTERS - 1] + "…"
