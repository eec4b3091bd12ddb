"""The closing tables say what the records hold."""

from rich.console import Console

from robust_attn.attacks.discrete import RepeatTokens
from robust_attn.attacks.move import Move
from robust_attn.budget import Wasserstein
from robust_attn.pipeline import CertificateOptions
from robust_attn.through.records import ThroughModel
from robust_attn.through.repeat import RepeatTask
from robust_attn.through.tables import through_tables
from tests.through.cases import ids, text_classifier


def shown(records) -> str:
    console = Console(record=True, width=200, quiet=False, file=None)
    with console.capture() as captured:
        for table in through_tables(records):
            console.print(table)
    return captured.get()


def test_predictions_and_layers():
    task = ThroughModel(Move(2, 0), Wasserstein(0.01), accuracy=0.5)
    records = list(task.records(text_classifier(), ids(1), [1], CertificateOptions(lanczos_steps=20), seed=0))
    text = shown(records)
    assert f"{records[0]['flip_radius']:.4g}" in text
    assert f"{records[1]['observed']['output_change']:.4g}" in text
    assert records[1]["certified"]["bound"] in text
    assert records[1]["verdict"] in text


def test_repetitions():
    task = RepeatTask(RepeatTokens(1, 1), Move(1, 0))
    records = list(task.records(text_classifier(), ids(1, 3), [0], seed=0))
    text = shown(records)
    assert f"{records[0]['loss']['typed']:.4g}" in text
    assert f"{records[1]['typed']['w2_output']:.4g}" in text


def test_records_of_other_tasks_have_other_tables():
    assert through_tables([{"task": "lipschitz"}, {}]) == []
