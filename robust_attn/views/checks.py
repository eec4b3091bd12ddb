"""Promises about output changes within a budget: attacks on layers, and certificates without an attack."""

from __future__ import annotations

from collections.abc import Sequence

from robust_attn.records.kinds import AttackRecord, CertifyRecord, Check, of_kind
from robust_attn.records.parts import Certified, RadiusPart
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Covers, Verdict
from robust_attn.views import layers, words
from robust_attn.views.certificates import certificate_rows, certificate_table, heads_panel, radius_promise, radius_tile
from robust_attn.views.convergence import convergence_panel
from robust_attn.views.facts import input_noun
from robust_attn.views.ladder import ladder_of, ladder_panel, ladder_table
from robust_attn.views.layers import LayerRow, by_layer, covers_of, example_of, verdict_of
from robust_attn.views.numerals import at_least, at_most, part_of, percent, percent_at_most
from robust_attn.views.panel import Panel
from robust_attn.views.passages import passages_of
from robust_attn.views.radii import radii_panel
from robust_attn.views.table import Table
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, nothing_view, present
from robust_attn.views.words import counted, covering, largest, listed, place_of, sentence, share, smallest

_TERMS = (
    words.GAIN,
    words.LIPSCHITZ,
    ("Certified", "A proved limit: no perturbation that it covers moves the output further."),
    ("Covers", "Against which perturbations within the budget a promise holds; others may go further."),
    words.PAPER,
    words.TIGHTNESS,
    *words.VERDICTS,
)
_NORM_TERMS = (
    ("Certified radius", "No perturbation of at most this size moves the output by more than the tolerance asked for."),
    ("R", "The largest norm that a token can have, the budget included."),
    ("|W_O W_V|", "How much a head stretches a value on its way to the output (of a layer: its largest head)."),
    ("|A|", "How strongly two tokens interact in a head’s logits; κ is the largest logit that this allows in R."),
    ("c_n", "How much attention one token can draw from all the others together, at most."),
)


def checks_view(run: Run) -> View:
    """Attacks and certificates of a run."""
    checks = of_kind(run.records, AttackRecord, CertifyRecord)
    if not checks:
        return nothing_view()
    rows = certificate_rows(of_kind(checks, CertifyRecord))
    noun = input_noun(run)
    return View(
        statement=check_statement(checks, noun, radius_promise(rows)),
        tiles=(*_tiles(checks), *radius_tile(rows)),
        tables=present(
            layers.layer_table(checks, noun, terminal=not rows), certificate_table(rows, noun) if rows else None
        ),
        panels=present(*check_panels(checks), heads_panel(rows)),
        terms=(*_TERMS, *(_NORM_TERMS if rows else ())),
        passages=passages_of(of_kind(checks, AttackRecord), run.inputs or {}),
        details=(*ladder_details(checks), layers.record_table(checks, noun)),
    )


def check_panels(checks: Sequence[Check]) -> tuple[Panel, ...]:
    """The figures of checks of any kind."""
    example = example_of(checks)
    ladder = None
    if example:
        title = f"The ladder of bounds, {place_of(example)}"
        reached = example.observed.output_change if example.attacked else None
        ladder = ladder_panel("ladder", title, ladder_of(example), "change of the output", reached)
    return present(layers.layers_panel(checks), convergence_panel(checks), ladder, radii_panel(checks))


def ladder_details(checks: Sequence[Check]) -> tuple[Table, ...]:
    """Every bound of the record that matters most."""
    example = example_of(checks)
    if example is None:
        return ()
    asks = verdict_of(example) in (Verdict.VIOLATED, Verdict.UNKNOWN)
    closest = "The record where the attack came closest. " if example.attacked else ""
    note = (
        f"{'The record that asks for attention. ' if asks else closest}The smallest upper bound that applies becomes "
        "the promise; the others show what it saves. Constants at the tokens stand apart, at the end: they speak of "
        "infinitely small changes, so they bound nothing within the budget."
    )
    title = f"Every bound for {place_of(example)}"
    return (ladder_table("ladder-table", title, ladder_of(example), "Output change", note, copies=example.copies),)


def check_statement(checks: Sequence[Check], noun: str, radii: str = "") -> Statement:
    """What checks promise, how surely, and what they do not."""
    chances = [_chance(check) for check in checks if check.certified.output_change is not None]
    promises = tuple(said for said in (_promise(checks, noun), radii) if said)
    confidence = words.joint_confidence(chances, "promise") if chances else ""
    return Statement(check_headline(checks), promises, confidence, _limits(checks, noun), scale=_scale(checks))


def _scale(checks: Sequence[Check]) -> str:
    """How large tokens and outputs are, and what budget and promise are of that; nothing where it is not recorded."""
    whole = [check for check in checks if check.head is None]
    tokens, outputs = [check.scale.tokens for check in whole], [check.scale.output for check in whole]
    moved = covering(layers.share_of(check.budget.radius, check.scale.tokens) for check in whole)
    if moved is None or None in outputs:
        return ""
    norms = (words.span([norm for norm in some if norm is not None]) for some in (tokens, outputs))
    said = "In the same norm the tokens measure {} and the outputs of the layers {}.".format(*norms)
    said += f" The perturbation is at most {percent_at_most(moved)} of the tokens"
    promised = covering(layers.share_of(check.certified.output_change, check.scale.output) for check in whole)
    return f"{said}{'' if promised is None else f', the promise at most {percent_at_most(promised)} of an output'}."


def check_headline(checks: Sequence[Check]) -> Headline:
    """One title for the checks; the worst verdict decides it."""
    counts = verdict_counts(map(verdict_of, checks))
    total = len(checks)
    if counts[Verdict.VIOLATED]:
        detail = (
            f"In {share(counts[Verdict.VIOLATED], total, 'check')} the output moved further than certified. "
            "The certificate, or the code that computed it, is wrong: do not rely on these numbers."
        )
        return Headline(Tone.VIOLATED, "A promise was broken", detail)
    if counts[Verdict.UNKNOWN]:
        title = f"{'No' if counts[Verdict.UNKNOWN] == total else 'Not every'} promise could be computed"
        which = share(counts[Verdict.UNKNOWN], total, "check")
        detail = f"For {which} a number is not finite, or rounding could decide: nothing is promised there."
        return Headline(Tone.UNKNOWN, title, detail)
    if counts[Verdict.VACUOUS]:
        return _vacuous(counts[Verdict.VACUOUS], checks)
    return _all_hold(checks)


def _vacuous(count: int, checks: Sequence[Check]) -> Headline:
    title = f"No promise was broken, but {words.nothing_new(count, len(checks))}"
    which = f"{sentence(share(count, len(checks), 'promise'))} {'is' if count == 1 else 'are'}"
    detail = f"{which} no better than the trivial limit, which holds for any perturbation at all.{_reach(checks)}"
    return Headline(Tone.VACUOUS, title, detail)


def _all_hold(checks: Sequence[Check]) -> Headline:
    attacked = [check for check in checks if check.attacked]
    if not attacked:
        them = "it" if len(checks) == 1 else "them"
        detail = f"{counted(len(checks), 'promise')} computed. No attack was run against {them} here."
        return Headline(Tone.HOLDS, "Every layer is certified", detail)
    detail = f"{counted(len(attacked), 'attack')} tried, no promise broken.{_reach(attacked)}"
    return Headline(Tone.HOLDS, "Every promise held", detail)


def _reach(checks: Sequence[Check]) -> str:
    closest = largest(check.tightness for check in checks if check.attacked)
    return f" The strongest attack reached {percent(closest)} of what is promised." if closest is not None else ""


def _chance(check: Check) -> float | None:
    """That of all the record promises: what stands beside its certificate rests on the same estimate, one event."""
    stated, beside = check.certified.failure_probability, _beside(check)
    other = None if beside is None else beside.failure_probability
    return stated if stated is None or other is None else max(stated, other)


def _beside(check: Check) -> RadiusPart | Certified | None:
    """The certified radius of a certificate, or the promise of an attack for all splits of its context."""
    if isinstance(check, CertifyRecord):
        return check.certified_radius
    return check.in_context if isinstance(check, AttackRecord) and layers.in_context_of(check) is not None else None


def _promise(every: Sequence[Check], noun: str) -> str:
    """What is promised, for which inputs: the sentence that the whole report supports; of several radii the largest."""
    if any(check.verdict is Verdict.VIOLATED for check in every):
        return "Nothing is promised: a certificate that an attack has broken does not certify."
    radius, checks = _spoken_of(every)
    rows = by_layer(checks)
    known = [row for row in rows if row.certified is not None]
    if not known:
        return "No finite certificate was computed, so nothing is promised." if rows else ""
    samples = len({check.sample for check in checks})
    inputs = f"For the {noun} tested" if samples == 1 else f"For each of the {samples} {noun}s tested"
    does = words.budget_words(checks[0].budget, radius, f"its {words.lengths_of(checks)}")
    missing = [row.layer for row in rows if row.certified is None]
    except_for = f" Nothing is promised for layer {listed(missing)}." if missing else ""
    return f"{inputs}, any perturbation that {does}{_split(checks)} {_effect(known)}{except_for}{_however_split(rows)}"


def _spoken_of(every: Sequence[Check]) -> tuple[float | None, Sequence[Check]]:
    """The largest radius and its checks; the smallest and all checks where some layer or sample lacks the largest.

    Of several contexts those of the longest, in the same way: what holds in it holds in all.
    """
    radii = [check.budget.radius for check in every]
    most = [check for check in every if check.budget.radius == largest(radii)]
    return (largest(radii), _in_longest_context(most)) if _places(most) == _places(every) else (smallest(radii), every)


def _in_longest_context(checks: Sequence[Check]) -> Sequence[Check]:
    contexts = [check.certified.context for check in checks]
    longest = [check for check, context in zip(checks, contexts, strict=True) if context == largest(contexts)]
    return longest if None not in contexts and _places(longest) == _places(checks) else checks


def _places(checks: Sequence[Check]) -> set[tuple[int | None, int | None, int]]:
    """What was looked at: layers, heads and samples."""
    return {(check.layer, check.head, check.sample) for check in checks}


def _however_split(rows: Sequence[LayerRow]) -> str:
    """The promise for all splits of the attack's context, where every layer has one."""
    changes = [row.in_context for row in rows]
    parts = [check.in_context for row in rows for check in row.checks if isinstance(check, AttackRecord)]
    contexts = [part.context for part in parts if part is not None and part.context is not None]
    most = covering(changes)
    if most is None or not contexts:
        return ""
    return (
        f" However tokens are split into pieces of at least {part_of(min(contexts))} of the whole each, no output "
        f"changes by more than its entry in “However split”, so none by more than {at_most(most)}."
    )


def narrowest(checks: Sequence[Check]) -> Covers:
    """The class of perturbations that every promise covers."""
    from_narrow_to_wide = (Covers.ATOMS, Covers.COPIES, Covers.CONTEXT, Covers.MEASURES, Covers.INPUTS)
    return min(map(covers_of, checks), key=from_narrow_to_wide.index)


def _split(checks: Sequence[Check]) -> str:
    """How tokens may be split by the perturbations that every promise covers."""
    copies = max(check.copies for check in checks)
    supports = [check.budget.support for check in checks if check.budget.support is not None]
    within = f", no piece beyond norm {at_least(min(supports))}" if supports else ""
    match narrowest(checks):
        case Covers.ATOMS:
            return ", without splitting any of them,"
        case Covers.COPIES:
            masses = f"into up to {copies} pieces, with the masses that it gave them"
            return f", the tokens split as in this attack ({masses}),"
        case Covers.CONTEXT:
            least = _least_piece(checks)
            return f", however they are split into pieces{least}{within},"
        case _:
            return f", however they are split{within},"


def _least_piece(checks: Sequence[Check]) -> str:
    """What a piece weighs at least, where records say so."""
    contexts = [check.certified.context for check in checks if check.certified.context is not None]
    return f" of at least {part_of(min(contexts))} each" if contexts else " that the context allows"


def _effect(known: Sequence[LayerRow]) -> str:
    measure = words.norm_words(known[0].widest.budget)
    if len(known) == 1:
        only = known[0]
        return f"changes the output of layer {only.layer} by at most {at_most(only.certified)} ({measure})."
    low, high = (choose(known, key=lambda row: row.certified or 0.0) for choose in (min, max))
    return (
        f"changes the output of each attention layer by at most the amount listed for it: from "
        f"{at_most(low.certified)} in layer {low.layer} to {at_most(high.certified)} in layer {high.layer} ({measure})."
    )


def _limits(checks: Sequence[Check], noun: str) -> str:
    covered = Covers.CONTEXT if _however_split(by_layer(checks)) else narrowest(checks)
    other = {
        Covers.ATOMS: "tokens that are split into pieces (within the same budget these may go much further), ",
        Covers.COPIES: "tokens that are split in other ways (within the same budget these may go much further), ",
        Covers.CONTEXT: "lighter pieces of tokens (within the same budget these may go much further), ",
    }.get(covered, "")
    return (
        f"Anything about {other}larger perturbations, other {noun}s than those tested, or what later layers make of "
        "the change."
    )


def _tiles(checks: Sequence[Check]) -> list[Tile]:
    counts = verdict_counts(map(verdict_of, checks))
    attacked = [check for check in checks if check.attacked]
    what = "layer, sample and attack combinations" if attacked else "layer, head and sample combinations"
    whole = [check for check in checks if check.head is None]
    covered = covering(check.certified.output_change for check in whole)
    promised = covering(layers.share_of(check.certified.output_change, check.scale.output) for check in whole)
    scale = f"; at most {percent_at_most(promised)} of its norm" if promised is not None else ""
    meaning = f"no output moves further, in any layer{scale}" if covered is not None else "at least one is missing"
    cells = [_kept(counts, len(checks), what), Tile("Largest promise", at_most(covered), meaning)]
    if attacked:
        gain = largest(check.observed.gain for check in attacked)
        tight = largest(check.tightness for check in attacked)
        cells.append(Tile("Largest gain seen", at_least(gain), "output change per unit of input change"))
        cells.append(Tile("Closest attack", percent(tight), "of what is promised; 100\u00a0% leaves no room"))
    return cells


def _kept(counts: dict[Verdict, int], total: int, what: str) -> Tile:
    """How many promises stand, and what is wrong with the others or weak about these."""
    standing = counts[Verdict.HOLDS] + counts[Verdict.VACUOUS]
    notes = (
        (counts[Verdict.VIOLATED], "broken"),
        (counts[Verdict.UNKNOWN], "not computed"),
        (counts[Verdict.VACUOUS], "no better than the trivial limit"),
    )
    said = ", ".join(f"{count} {note}" for count, note in notes if count)
    return Tile("Promises that stand", f"{standing} of {total}", said or what)
