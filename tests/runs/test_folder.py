import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from robust_attn.records.store import INPUTS
from robust_attn.runs.folder import RunFolder, new_folder
from robust_attn.types import UserError
from tests.records.samples import attack_record


def test_records_are_lines_that_can_be_read_at_once(tmp_path):
    folder = RunFolder.claim(tmp_path / "run")
    for number in range(3):
        folder.append(attack_record(number))
        lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
        assert [json.loads(line)["layer"] for line in lines] == list(range(number + 1))


def test_a_value_that_is_no_number_is_never_written(tmp_path):
    """It is unknown once it is in a record; where it was smuggled in all the same, nothing is written."""
    folder = RunFolder.claim(tmp_path / "run")
    smuggled = attack_record()
    object.__setattr__(smuggled, "tightness", math.nan)
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.append(smuggled)
    assert (tmp_path / "run" / "records.jsonl").read_text() == ""
    folder.append(attack_record(tightness=math.nan, convergence=(1.0, math.inf)))
    written = (tmp_path / "run" / "records.jsonl").read_text()
    values = json.loads(written, parse_constant=pytest.fail)
    assert (values["tightness"], values["convergence"]) == (None, [1.0, None])


def test_two_runs_cannot_share_a_folder(tmp_path):
    RunFolder.claim(tmp_path / "run")
    with pytest.raises(UserError, match="already holds a run"):
        RunFolder.claim(tmp_path / "run")


def test_a_folder_that_is_taken_gets_a_number_behind_its_name(tmp_path):
    wanted = tmp_path / "day" / "12-00-00-move-toy"
    names = [new_folder(wanted).name for _ in range(3)]
    assert names == ["12-00-00-move-toy", "12-00-00-move-toy-2", "12-00-00-move-toy-3"]
    (tmp_path / "file").touch()
    assert new_folder(tmp_path / "file").name == "file-2"


def test_no_two_of_many_at_once_get_the_same_folder(tmp_path):
    """Sixteen threads leave a barrier together and ask for the same name."""
    start = threading.Barrier(16)

    def ask(_):
        start.wait()
        return new_folder(tmp_path / "run")

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(16)))
    assert len(set(found)) == 16
    assert all(path.is_dir() for path in found)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder.claim(tmp_path / "file" / "run")


def test_files_are_written_whole(tmp_path):
    folder = RunFolder.claim(tmp_path / "run")
    folder.write("summary.json", {"a": 1})
    with pytest.raises(TypeError):
        folder.write("summary.json", {"a": object()})
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == {"a": 1}


def test_the_inputs_grow_by_a_length_at_a_time(tmp_path):
    folder = RunFolder.claim(tmp_path)
    folder.add_inputs(2, [["a", "</b>"]])
    folder.add_inputs(4, None)
    assert json.loads((tmp_path / INPUTS).read_text()) == {"2": [["a", "</b>"]], "4": None}
