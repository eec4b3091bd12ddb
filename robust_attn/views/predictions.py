"""Predictions of a whole classifier: which were flipped, how near the nearest flip is, and what is promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from robust_attn.records.kinds import Check, LayerRecord, PredictionRecord
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import words
from robust_attn.views.checks import ladder_details
from robust_attn.views.flip_passages import flip_passages, typed_table
from robust_attn.views.layers import layers_panel, share_of, shown_first, verdict_of
from robust_attn.views.numerals import at_least, at_most, percent, percent_at_most, plain
from robust_attn.views.panel import Look, Panel, Point, Role
from robust_attn.views.prediction_radii import (
    BASELINES,
    CSV_FILE,
    SMOOTHING,
    UNCOVERED,
    certificates,
    flips,
    least_certain_first,
    predictions_csv,
    proved_radius,
    smallest_radii,
)
from robust_attn.views.robust_accuracy import accuracies, accuracy_panel, accuracy_table
from robust_attn.views.step_shares import shares_panel, worst_step
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
from robust_attn.views.words import counted, largest, sentence, share, shortened

SAMPLES_DRAWN = 40
TEXTS_SHOWN, CHARACTERS = 8, 400
WAYS = {"move": "moving tokens", "split": "splitting tokens", "one_word": "moving one word", "typed": "typing"}
_TERMS = (
    ("Margin", "How much the model prefers its answer to the next best one, in logits; below zero it is flipped."),
    ("Flip radius", "The smallest perturbation found that changes the prediction. A smaller one may exist."),
    ("Certified radius", "No motion of tokens within this distance changes the prediction: proved, not searched for."),
    ("Certified (one word)", "The same where one token moves and all others stay."),
    ("Certified (smoothing)", "A statement about another classifier: this one, averaged over random noise."),
    ("FLIPPED", "The attack changed the prediction."),
    ("VIOLATED", "A flip was found nearer than certified: something is wrong, and this must be looked into."),
    ("VACUOUS", "The promise about a layer is no better than one that holds for any perturbation at all."),
    words.UNKNOWN,
)


def predictions_view(run: Run) -> View:
    """Attacks on whole predictions."""
    predictions = [record for record in run.records if isinstance(record, PredictionRecord)]
    layers = [record for record in run.records if isinstance(record, LayerRecord)]
    predictions = least_certain_first(predictions)
    found = accuracies(predictions)
    panels = (*map(accuracy_panel, found), shares_panel(predictions), _flips_panel(predictions), layers_panel(layers))
    return View(
        statement=_statement(predictions, layers),
        tiles=_tiles(predictions, layers),
        tables=(
            *((_prediction_table(predictions),) if predictions else ()),
            *((_layer_table(layers),) if layers else ()),
        ),
        panels=tuple(panel for panel in panels if panel is not None),
        terms=_TERMS,
        passages=flip_passages(predictions),
        details=(
            *map(accuracy_table, found),
            *typed_table(predictions),
            *ladder_details(layers),
            *_texts(predictions),
        ),
        leading=len(found),
        files={CSV_FILE: predictions_csv(predictions)} if predictions else {},
        question="can its predictions be flipped?",
    )


def was_flipped(record: PredictionRecord) -> bool:
    """Whether the attack flipped the prediction: within its budget, or where none was tried, at any radius."""
    return record.smallest_flip is not None if record.attacked is None else record.attacked.flipped


def _statement(predictions: Sequence[PredictionRecord], layers: Sequence[LayerRecord]) -> Statement:
    chances = [record.failure_probability for record in predictions if proved_radius(record) is not None]
    of_layers = [r.certified.failure_probability for r in layers if r.certified.output_change is not None]
    known, about = [*chances, *of_layers], "" if chances else "This is about the layers on the way. "
    said = (_promise(predictions), _weakest_step(predictions), _layer_promise(layers))
    return Statement(
        _headline(predictions, layers),
        tuple(part for part in said if part),
        about + words.joint_confidence(known, "promise") if known else "",
        "That there is no smaller flip than those found: an attack that finds none proves nothing. Anything about "
        "tokens that are split or typed, and about other inputs than those tested.",
        scale=_scale(predictions),
    )


def _scale(predictions: Sequence[PredictionRecord]) -> str:
    """How large the tokens are, and what the radii are of that; nothing where it is not recorded."""
    norms = [record.scale.tokens for record in predictions]
    known = [norm for norm in norms if norm is not None]
    if not known or len(known) < len(norms):
        return ""
    by_way = smallest_radii(predictions, lambda record: _shares(record.flip_radius, record.scale.tokens))
    told = [f"{percent_at_most(found)} by {way_words(way)}" for way, found in by_way.items()]
    proved = [found for record in predictions if (found := share_of(proved_radius(record), record.scale.tokens))]
    said = f"In the same norm the embedded tokens measure {words.span(known)}."
    said += f" Nearest flips found, as shares of that: {', '.join(told)}." if told else ""
    return said + (f" Certified: at least {percent(min(proved))} of it." if proved else "")


def _shares(radii: Mapping[str, float | None], norm: float | None) -> dict[str, float | None]:
    return {way: share_of(radius, norm) for way, radius in radii.items()}


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
        return Headline(Tone.FLIPPED, _flipped_title(flipped, total), _in_short(predictions))
    unknown = any(record.verdict is Verdict.UNKNOWN for record in predictions)
    if unknown or any(verdict_of(record) is Verdict.UNKNOWN for record in layers) or not predictions:
        detail = "No flip was found, but a number was not finite, or rounding could decide: nothing is promised there."
        return Headline(Tone.UNKNOWN, "Not every promise could be computed", detail)
    if all(_kept(record) for record in predictions):
        return Headline(Tone.HOLDS, "No motion within the budget flips a prediction", _in_short(predictions))
    farther = any(record.smallest_flip is not None for record in predictions)
    title = f"No prediction was flipped{' within the budget' if farther else ''}"
    return Headline(Tone.MEASURED, title, _in_short(predictions))


def _kept(record: PredictionRecord) -> bool:
    """Whether the whole budget lies within a certified radius."""
    certified, asked = proved_radius(record), record.budget.radius
    if certified is None or asked is None or record.verdict is not Verdict.HOLDS:
        return False
    return certified >= asked and (record.smallest_flip is None or record.smallest_flip > asked)


def _flipped_title(flipped: int, total: int) -> str:
    if total == 1:
        return "The prediction was flipped"
    return f"{flipped} of {total} predictions were flipped"


def _in_short(predictions: Sequence[PredictionRecord]) -> str:
    """What is proved, what was found, and that nothing is known between the two."""
    known = [proved_radius(record) for record in predictions]
    proved, total = [radius for radius in known if radius is not None], len(predictions)
    if len(proved) == total:
        which = "the prediction" if total == 1 else f"any of the {total} predictions"
        below = f"no motion of tokens up to {at_least(min(proved))} flips {which}"
    elif proved:
        below = f"no motion of tokens up to {at_least(min(proved))} flips {share(len(proved), total, 'prediction')}"
    else:
        below = "nothing"
    between = " What lies between is unknown." if proved else ""
    norm = f" Radii: {words.norm_words(predictions[0].budget)}." if proved or smallest_radii(predictions, flips) else ""
    return f"Proved: {below}. Found: {_found(predictions)}.{between}{norm}"


def _found(predictions: Sequence[PredictionRecord]) -> str:
    radii = smallest_radii(predictions, flips)
    if not radii:
        return "no flip, though a stronger attack may find one"
    proved = any(proved_radius(record) is not None for record in predictions)
    beyond = {way: ", which no proof covers" if proved and way in UNCOVERED else "" for way in radii}
    told = [f"{at_most(radius)} by {way_words(way)}{beyond[way]}" for way, radius in radii.items()]
    ratio = (
        f": splitting needs {plain(radii['move'] / radii['split'])} times less"
        if radii.get("split") and radii.get("move", 0.0) > 2 * radii["split"]
        else ""
    )
    return f"{'a flip at' if len(predictions) == 1 else 'flips from'} {', '.join(told)}{ratio}"


def way_words(way: str) -> str:
    """A way to attack, in words."""
    return WAYS.get(way, way)


def _promise(predictions: Sequence[PredictionRecord]) -> str:
    if any(record.verdict is Verdict.VIOLATED for record in predictions):
        return "Nothing is promised: a certificate that an attack has broken does not certify."
    every = smallest_radii(predictions, certificates)
    aside = (SMOOTHING, *BASELINES) if "all" in every else (SMOOTHING,)
    radii = {name: radius for name, radius in every.items() if name not in aside}
    if not radii:
        which = "this prediction" if len(predictions) == 1 else "these predictions"
        return f"Nothing is promised about {which}: no radius was certified, and an attack only shows what is possible."
    certified = [record for record in predictions if any(record.certified_radius.get(name) for name in radii)]
    told = [f"{at_least(radius)} ({_spaced(name)})" for name, radius in radii.items()]
    return (
        f"{sentence(share(len(certified), len(predictions), 'prediction'))} certified: no motion of its tokens within "
        f"the radius listed flips it. The smallest such radius is {', '.join(told)} "
        f"({words.norm_words(predictions[0].budget)})."
    )


def _weakest_step(predictions: Sequence[PredictionRecord]) -> str:
    worst = worst_step(predictions)
    return f"The step whose error takes most of the margin: {worst} of all that is taken." if worst else ""


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
        cells.append(Tile("Flipped", f"{flipped} of {len(predictions)}", f"predictions, {_how_far(predictions)}"))
    for way, radius in smallest_radii(predictions, flips).items():
        cells.append(
            Tile(f"Nearest flip by {way_words(way)}", at_most(radius), "smallest radius found, over all inputs")
        )
    for name, radius in smallest_radii(predictions, certificates).items():
        meaning = (
            "of the smoothed classifier, not of this one" if name == SMOOTHING else "no nearer motion flips, by proof"
        )
        cells.append(Tile(f"Certified ({_spaced(name)})", at_least(radius), meaning))
    shares = [share for record in predictions if (share := certified_share(record)) is not None]
    if shares:
        cells.append(
            Tile("Certified / flip", percent(median(shares)), f"median over {counted(len(shares), 'prediction')}")
        )
    if layers:
        closest = percent(largest(record.tightness for record in layers))
        cells.append(Tile("Closest layer", closest, "of what is promised about its output"))
    return tuple(cells)


def _how_far(predictions: Sequence[PredictionRecord]) -> str:
    """Where flips were looked for: within the budget of an attack, or at any radius where there was none."""
    budget = predictions[0].budget
    attacked = any(record.attacked is not None for record in predictions)
    return f"within {budget.kind} {plain(budget.radius)}" if attacked else "at some radius"


def certified_share(record: PredictionRecord) -> float | None:
    """The certified radius of all tokens over the nearest flip by moving them."""
    certified, flip = record.certified_radius.get("all"), record.flip_radius.get("move")
    return certified / flip if certified and flip else None


def _prediction_table(predictions: Sequence[PredictionRecord]) -> Table:
    ways = [_way_field(way) for way in smallest_radii(predictions, flips)]
    number = "Sample" if any(record.row is None for record in predictions) else "Row"
    proofs = [_proof_field(name) for name in smallest_radii(predictions, certificates)]
    fields: Fields[PredictionRecord] = (
        counts(number, lambda record: record.sample if record.row is None else record.row),
        texts("Label", lambda record: None if record.label is None else str(record.label), optional=True),
        counts("Class", lambda record: record.predicted),
        *proofs,
        *ways,
        perhaps("Certified / flip", certified_share, percent, optional=True),
        perhaps("Smallest mass", lambda record: record.flip.smallest_mass, at_least, optional=True),
        perhaps("Margin", lambda record: record.margin, optional=True),
        texts("Attacked", _outcome, optional=True),
        perhaps("Its margin", lambda record: record.attacked.margin if record.attacked else None, optional=True),
        verdicts(lambda record: record.verdict, optional=True),
    )
    attacked = any(record.attacked is not None for record in predictions)
    made = f" what the attack made of it {_how_far(predictions)}," if attacked else ""
    note = (
        f"The class that the model gives to the input,{made} the smallest radius found at which the class changes "
        f"(rounded up), and the certified one (rounded down). The least certain first. Every digit is in {CSV_FILE} "
        "beside this file."
    )
    title = "Prediction by prediction"
    return table_of("prediction-table", title, fields, predictions, note=note, terminal=True, rest=CSV_FILE)


def _way_field(way: str) -> Field[PredictionRecord]:
    title = f"Flips by {way_words(way).removesuffix(' tokens')} at"
    return perhaps(title, lambda record: record.flip_radius.get(way), at_most)


def _proof_field(name: str) -> Field[PredictionRecord]:
    extra = name in (*BASELINES, SMOOTHING)
    title = f"Certified ({_spaced(name)})"
    return perhaps(title, lambda record: record.certified_radius.get(name), at_least, optional=extra)


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
    for way in smallest_radii(drawn, flips):
        name = f"flips by {way_words(way)}"
        lines[name], looks[name] = _points(record.flip_radius.get(way) for record in drawn), Look(Role.NEAREST, name)
    for proof in (name for name in smallest_radii(drawn, certificates) if name not in (*BASELINES, SMOOTHING)):
        name = f"certified ({_spaced(proof)})"
        lines[name] = _points(record.certified_radius.get(proof) for record in drawn)
        looks[name] = Look(Role.CERTIFIED) if proof == "all" else Look(Role.SERIES, name)
    if not any(lines.values()):
        return None
    attacked = any(record.attacked is not None for record in predictions)
    line = "; the orange line is the budget of the attack" if attacked else ""
    many = f" The first {len(drawn)} of {len(predictions)} are drawn." if len(predictions) > len(drawn) else ""
    return Panel(
        "flips",
        "How near the nearest flip is",
        "input",
        "radius",
        lines,
        looks=looks,
        categories=tuple(map(words.place_of, drawn)),
        level=predictions[0].budget.radius if attacked else None,
        caption=f"The smallest perturbation found that changes each prediction, in the norm of the budget{line}. The "
        f"axis is logarithmic.{many}",
    )


def _points(radii: Iterable[float | None]) -> tuple[Point, ...]:
    return tuple((float(place), radius) for place, radius in enumerate(radii) if radius is not None and radius > 0)


def _texts(predictions: Sequence[PredictionRecord]) -> tuple[Table, ...]:
    samples = sorted((record.sample, record.text) for record in predictions if record.text)
    return text_tables("The texts", samples)


def text_tables(title: str, samples: Sequence[tuple[int, str]]) -> tuple[Table, ...]:
    """A few texts with the numbers of their samples; none where there are none."""
    fields: Fields[tuple[int, str]] = (
        counts("Sample", lambda pair: pair[0]),
        texts("Text", lambda pair: shortened(pair[1], CHARACTERS)),
    )
    return (table_of("text-table", title, fields, samples, limit=TEXTS_SHOWN),) if samples else ()
