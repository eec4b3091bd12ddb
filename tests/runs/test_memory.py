import pytest

from robust_attn.models import load_model
from robust_attn.pipeline import layers
from robust_attn.runs import memory
from robust_attn.runs.memory import available_bytes, certificate_bytes, require_memory
from robust_attn.types import ExitStatus, UserError
from tests.composed import run


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with so much memory, and a control group with its own limit."""

    def make(*, available: int | None, limit: str | None = None, used: str = "0") -> None:
        info, most, now = tmp_path / "meminfo", tmp_path / "max", tmp_path / "current"
        if available is not None:
            info.write_text(f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n")
        if limit is not None:
            most.write_text(f"{limit}\n")
            now.write_text(f"{used}\n")
        monkeypatch.setattr(memory, "MEMORY_INFO", info)
        monkeypatch.setattr(memory, "LIMITS", ((most, now),))

    return make


def test_the_smaller_of_machine_and_control_group_counts(machine):
    machine(available=8 * 2**30, limit=str(4 * 2**30), used=str(2**30))
    assert available_bytes() == 3 * 2**30
    machine(available=8 * 2**30, limit="max")
    assert available_bytes() == 8 * 2**30


def test_file_pages_that_the_kernel_gives_up_count_as_free(machine, tmp_path):
    machine(available=8 * 2**30, limit=str(4 * 2**30), used=str(3 * 2**30))
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {2**30}\n")
    assert available_bytes() == 2 * 2**30


def test_what_does_not_fit_is_refused_before_tokens_are_drawn(tmp_path):
    outcome, _, _, _ = run(tmp_path / "run", "model=toy", "data=gaussian", "samples=1000000000000")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "fewer samples" in outcome.message


def test_nothing_known_refuses_nothing(machine):
    machine(available=None)
    assert available_bytes() is None
    require_memory(10**6, 10**6, 2)


def test_what_does_not_fit_is_refused_before_the_work(machine, tmp_path):
    machine(available=10**5)
    with pytest.raises(UserError, match=r"fewer samples or tokens"):
        require_memory(4, 1024, 2)
    outcome, records, summary, _ = run(tmp_path / "run", "model=toy", "attack=mass_split")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "fewer samples" in outcome.message
    assert records == []
    assert summary["status"] == "failed"


@pytest.mark.parametrize("task", ["certify", "lipschitz", "worst_case", "tightness", "adversarial_layer"])
def test_every_task_on_layers_is_estimated_first(task, machine, tmp_path):
    machine(available=10**4)
    outcome, records, _, _ = run(tmp_path / "run", f"task={task}", "model=toy")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "fewer samples" in outcome.message
    assert records == []


def test_memory_grows_with_samples_and_with_the_square_of_atoms():
    assert certificate_bytes(2, 100, 2) == 2 * certificate_bytes(1, 100, 2)
    assert certificate_bytes(1, 200, 2) == 4 * certificate_bytes(1, 100, 2)
    growth = certificate_bytes(2, 4000, 12) - certificate_bytes(1, 4000, 12)
    assert certificate_bytes(1, 8000, 12) - certificate_bytes(1, 4000, 12) == 3 * growth
    assert certificate_bytes(1, 4000, 12) == certificate_bytes(1, 4000, 48)  # blocks of rows


@pytest.mark.parametrize(
    ("samples", "atoms", "heads", "measured"),
    [(1, 512, 2, 0.47e9), (1, 1024, 2, 0.97e9), (4, 512, 2, 0.96e9), (1, 512, 8, 1.67e9)],
)
def test_the_estimate_is_near_what_was_measured(samples, atoms, heads, measured):
    """Peak memory of attack=move on the toy model less 0.42 GB, that of a small run; docs/trust.md says how."""
    assert measured * 0.9 < certificate_bytes(samples, atoms, heads) < measured * 2.6


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (("attack=move",), (4, 10)),
        (("attack=mass_split", "attack.copies=3"), (4, 30)),
        (("attack=mass_split", "attack.copies=3", "attack.tokens=2"), (4, 30)),
        (("attack=mass_split", "attack.masses=sliver"), (4, 20)),
        (("attack=duplicate",), (1, 20)),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_atoms_of_an_attack_are_never_too_few(attack, expected, monkeypatch, tmp_path):
    """The attack task says how many samples are certified at once and as how many atoms, before any work."""
    asked = []

    def refuse(*sizes):
        asked.append(sizes)
        raise UserError("enough")

    monkeypatch.setattr(layers, "require_memory", refuse)
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", "samples=4", "tokens=10", *attack)
    assert (outcome.message, records) == ("enough", [])
    heads = load_model("toy", "random").layer(0).heads
    assert asked == [(*expected, heads)]
