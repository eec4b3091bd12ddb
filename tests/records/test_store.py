"""Run folders are read as they are found: whole, cut, damaged, of schema 1."""

import json

import pytest

from robust_attn.records.kinds import AttackRecord, CertifyRecord
from robust_attn.records.store import find_runs, line_of, load_run
from robust_attn.types import UserError

from .samples import attack_record, certify_record


def written(folder, records, **files):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records.jsonl").write_text("".join(map(line_of, records)))
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


def test_a_run_is_read_whole(tmp_path):
    records = [attack_record(layer) for layer in range(3)]
    run = load_run(written(tmp_path / "run", records, summary={"status": "complete", "task": "attack"}))
    assert run.records == tuple(records)
    assert (run.status, run.task, run.damaged_lines) == ("complete", "attack", 0)


def test_damaged_lines_are_counted_and_left_out(tmp_path):
    folder = written(tmp_path / "run", [attack_record()])
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b'{"kind": "attack"}\n\n\xff\xfe\n[1]\n' + line_of(attack_record(1)).encode()[:-30])
    run = load_run(folder)
    assert (len(run.records), run.damaged_lines, run.status) == (1, 4, "unfinished")


def test_records_of_schema_1_take_their_kind_from_the_task_of_their_run(tmp_path):
    for task, record, kind in (("attack", attack_record(), AttackRecord), ("certify", certify_record(), CertifyRecord)):
        old = {name: value for name, value in record.to_json().items() if name != "kind"} | {"schema": 1}
        folder = written(tmp_path / task, [], summary={"task": task})
        (folder / "records.jsonl").write_text(json.dumps(old) + "\n")
        assert load_run(folder).records == (record,)
        assert isinstance(load_run(folder).records[0], kind)
        (folder / "summary.json").unlink()
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "config.yaml").write_text(f"task:\n  name: {task}\n")
        assert load_run(folder).records == (record,)


def test_runs_are_found_in_the_order_of_their_numbers_and_not_inside_a_tracker(tmp_path):
    for name in ("10-move", "2-move", "2-move/wandb/files"):
        written(tmp_path / name, [])
    assert [run.folder.name for run in find_runs(tmp_path)] == ["2-move", "10-move"]


def test_a_folder_that_is_not_there_is_said_in_one_sentence(tmp_path):
    for read in (load_run, find_runs):
        with pytest.raises(UserError, match="there is no"):
            read(tmp_path / "nowhere")
