from pathlib import Path

import pytest

from robust_attn.report.load import find_runs, load_run
from robust_attn.types import UserError

from .sample_runs import record, records, write_run


def test_a_complete_run_is_read_whole(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    assert len(run.records) == 24
    assert run.damaged_lines == 0
    assert run.status == "complete"
    assert run.overrides == ["attack=mass_split", "model=minilm"]
    assert run.config["model"]["name"] == "minilm"
    assert run.environment is not None
    assert run.environment["threads"] == 2


@pytest.mark.parametrize("tail", ['{"schema": 1, "la', '{"text": "caf\udcc3', "null\n", "[1, 2]\n", "\x00\x00"])
def test_a_cut_or_damaged_line_is_skipped_and_counted(tmp_path: Path, tail: str) -> None:
    folder = write_run(tmp_path / "run", [record()])
    with (folder / "records.jsonl").open("ab") as file:
        file.write(tail.encode("utf-8", "surrogateescape"))
    run = load_run(folder)
    assert (len(run.records), run.damaged_lines) == (1, 1)


def test_a_run_without_summary_is_unfinished(tmp_path: Path) -> None:
    assert load_run(write_run(tmp_path / "run", finished=False)).status == "unfinished"


def test_damaged_side_files_are_as_good_as_missing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", config="a: [b")
    (folder / "summary.json").write_text('{"status": "comp')
    (folder / ".hydra" / "overrides.yaml").unlink()
    run = load_run(folder)
    assert (run.summary, run.config, run.overrides) == (None, {}, [])


def test_yaml_tags_build_no_python_objects(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    folder = write_run(tmp_path / "run", config=f"a: !!python/object/apply:os.mkdir ['{marker}']")
    assert load_run(folder).config == {}
    assert not marker.exists()


def test_runs_are_found_in_the_order_of_their_numbers_and_not_inside_wandb(tmp_path: Path) -> None:
    for number in ("0", "2", "10"):
        write_run(tmp_path / number, records(1, 1))
    write_run(tmp_path / "2" / "wandb" / "copy", records(1, 1))
    assert [run.folder.name for run in find_runs(tmp_path)] == ["0", "2", "10"]


@pytest.mark.parametrize("call", [load_run, find_runs])
def test_a_missing_folder_is_one_sentence(tmp_path: Path, call) -> None:
    with pytest.raises(UserError, match="there is no"):
        call(tmp_path / "nowhere")


def test_runs_come_in_the_order_in_which_a_person_counts(tmp_path: Path) -> None:
    for name in ("10-move", "2-move", "2-a", "1"):
        write_run(tmp_path / name, [])
    assert [run.folder.name for run in find_runs(tmp_path)] == ["1", "2-a", "2-move", "10-move"]
