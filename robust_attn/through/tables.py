"""What a person sees at the end of an attack through a model: predictions first, then the way through the layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from robust_attn.terminal import COLOURS, number
from robust_attn.through.records import LAYERS, PREDICTION
from robust_attn.through.repeat import LAYERS as REPEAT_LAYERS
from robust_attn.through.repeat import REPEATS

Record = Mapping[str, Any]


def through_tables(records: Sequence[Record]) -> list[Table]:
    """One table per kind of record, in this order; none for records of other tasks."""
    kinds = {PREDICTION: _predictions, LAYERS: _layers, REPEATS: _repetitions, REPEAT_LAYERS: _repeat_layers}
    groups = {task: [record for record in records if record.get("task") == task] for task in kinds}
    return [kinds[task](some) for task, some in groups.items() if some]


def _predictions(records: Sequence[Record]) -> Table:
    budget, attack = records[0]["budget"], records[0]["attack"]
    title = f"Predictions under {attack} within {budget['kind']} {budget['radius']:g}, and the radius of a flip"
    splits = any(record["flip_radius"] != record["flip_radius_moving"] for record in records)
    more = ("its smallest mass", "moving flips at") if splits else ()
    table = _table(title, ("sample", "class", "margin", "attacked", "margin", "flips at", *more))
    for record in records:
        margin, prediction = record["margin"], record["prediction"]
        beside = (record["flip_smallest_mass"], record["flip_radius_moving"]) if splits else ()
        table.add_row(
            str(record["sample"]),
            str(prediction["clean"]),
            number(margin["clean"]),
            f"{prediction['perturbed']}{' FLIPPED' if prediction['flipped'] else ''}",
            *map(number, (margin["perturbed"], record["flip_radius"], *beside)),
        )
    return table


def _layers(records: Sequence[Record]) -> Table:
    kind = records[0]["budget"]["kind"]
    title = f"The change on its way through the model ({kind} norm), and what each layer is certified to make of it"
    table = _table(title, ("sample", "layer", "arrives", "leaves", "gain", "certified", "by", "tightness", "verdict"))
    for record in records:
        observed, certified = record["observed"], record["certified"]
        values = (observed["input_change"], observed["output_change"], observed["gain"], certified["output_change"])
        table.add_row(
            str(record["sample"]),
            str(record["layer"]),
            *map(number, values),
            escape(certified["bound"] or "-"),
            number(record["tightness"]),
            _verdict(record),
        )
    return table


def _repetitions(records: Sequence[Record]) -> Table:
    title = "Tokens typed once more: loss of the prediction, typed and with as many free repetitions"
    table = _table(title, ("sample", "repeats", "token", "rank", "W2", "clean loss", "typed", "free", "class"))
    for record in records:
        loss, prediction = record["loss"], record["prediction"]
        table.add_row(
            str(record["sample"]),
            str(record["repeats"]),
            escape(str(record["token"])),
            str(record["gradient_rank"]),
            *map(number, (record["w2_embeddings"], loss["clean"], loss["typed"], loss["free"])),
            f"{prediction['clean']} -> {prediction['typed']}{' FLIPPED' if record['flipped'] else ''}",
        )
    return table


def _repeat_layers(records: Sequence[Record]) -> Table:
    attack = records[0]["continuous"]["attack"]
    title = f"W2 at every layer: the typed text beside {attack} with the same W2 distance of the embeddings"
    head = ("sample", "layer", "arrives", "leaves", f"{attack} arrives", "leaves", "flipped", "certified", "verdict")
    table = _table(title, head)
    for record in records:
        typed, other = record["typed"], record["continuous"]
        table.add_row(
            str(record["sample"]),
            str(record["layer"]),
            *map(number, (typed["w2_input"], typed["w2_output"], other["w2_input"], other["w2_output"])),
            "yes" if other["flipped"] else "no",
            number(record["certified"]["output_change"]),
            _verdict(record),
        )
    return table


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("by", "verdict", "token", "class") else "right")
    return table


def _verdict(record: Record) -> str:
    colour = COLOURS[record["verdict"]]
    return f"[{colour}]{record['verdict']}[/{colour}]"
