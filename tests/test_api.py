"""The public names as type checkers and people see them."""

import ast
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import robust_attn as ra

PACKAGE = Path(ra.__file__).parent
MISUSED = """
import robust_attn as ra

layer = ra.load_model("toy").layer(0)
ra.certify(layer, 3.0, ra.Wasserstein(0.01))
ra.Wasserstein("far")
ra.MassSplit(copys=2)
"""


def test_type_checkers_see_every_public_name_where_it_is_loaded_from():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (name.asname, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert seen == {(name, f"robust_attn.{home}") for name, home in ra._HOMES.items()}
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.slow
def test_a_type_checker_is_told_of_every_misuse(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(MISUSED)
    command = [sys.executable, "-m", "mypy", "--strict", str(script)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False).stdout
    assert [line.split(":")[1] for line in told.splitlines() if "error:" in line] == ["5", "6", "7"]


def test_points_and_radii_are_not_taken_for_measures_and_budgets():
    """In a process of its own, where annotations are not checked."""
    code = """
import torch, robust_attn as ra
layer = ra.AttentionLayer.single_head(torch.eye(1), torch.eye(1))
points, budget = torch.zeros(2, 1), ra.Wasserstein(0.01)
measure = ra.TokenMeasure.uniform(points)
for call in (ra.certify, ra.Move(2), ra.MassSplit(2, 2), ra.certify_measures):
    for wrong in ((points, budget), (measure, 0.01)):
        try:
            call(layer, *wrong)
        except ValueError as error:
            print(error)
for constant in (ra.local_lipschitz, ra.split_lipschitz):
    try:
        constant(layer, points)
    except ValueError as error:
        print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    of_measure = "expected a TokenMeasure, for points TokenMeasure.uniform(points); got Tensor"
    of_budget = "expected a budget, such as Wasserstein(0.01); got 0.01"
    assert told == [of_measure, of_budget] * 4 + [of_measure] * 2


def test_a_wrong_field_is_told_in_the_words_of_the_library():
    with pytest.raises(ValueError, match=r"^radius must be a finite number that is not negative, got -1"):
        ra.Wasserstein(-1)
    with pytest.raises(ValueError, match=r"^copies must be at least 1, got 0"):
        ra.MassSplit(copies=0)


def test_results_are_short_in_a_session_and_tables_in_a_notebook():
    layer = ra.AttentionLayer.single_head(torch.eye(2).double(), torch.eye(2).double())
    measure, budget = ra.TokenMeasure.uniform(torch.eye(2).double()), ra.Wasserstein(0.01)
    certificate, result = ra.certify(layer, measure, budget, seed=0), ra.Move(2)(layer, measure, budget)
    radius = ra.certified_radius(layer, measure, ra.Wasserstein, 0.1, seed=0)
    constant = ra.local_lipschitz(layer, measure)
    assert repr(certificate).startswith("Certificate(output_change=0.0")
    assert repr(constant).startswith("LipschitzEstimate(lower=1")
    assert repr(result).startswith("AttackResult('move', 1 copies, gain ")
    assert repr(ra.load_model("toy")) == "AttentionModel('toy', random:0, 2 attention layers)"
    for each, words in (
        (certificate, "changes by at most"),
        (result, "output change"),
        (radius, "within the radius"),
        (constant, "at most"),
    ):
        assert words in each._repr_html_()
        assert len(repr(each)) < 300


def test_one_measure_and_a_batch_are_taken_alike():
    """What is promised of a batch is promised of every sample; observations and constants have one entry for each."""
    layer = ra.AttentionLayer.single_head(torch.eye(2).double(), torch.eye(2).double())
    points = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[3.0, 1.0], [0.0, -2.0]], [[0.5, 0.0], [0.0, 0.0]]]).double()
    batch, budget = ra.TokenMeasure.uniform(points), ra.Wasserstein(0.01, support=9.0)
    each = [batch.sample(index) for index in range(3)]
    for promise in (
        lambda given: ra.certify(layer, given, budget),
        lambda given: ra.certify_measures(layer, given, budget),
    ):
        together, alone = promise(batch), [promise(measure) for measure in each]
        changes = [certificate.output_change for certificate in alone]
        assert [certificate.output_change for certificate in together.samples] == pytest.approx(changes)
        assert together.output_change == max(certificate.output_change for certificate in together.samples)
        assert alone[0].samples == ()
        assert "3 samples" in repr(together)
    constants = [float(ra.local_lipschitz(layer, measure).lower) for measure in each]
    assert ra.local_lipschitz(layer, batch).lower.tolist() == pytest.approx(constants)
    assert ra.Move(2)(layer, batch, budget).observation.gain.shape == (3,)
    assert ra.Move(2)(layer, each[0], budget).observation.gain.shape == ()


def test_a_batch_with_a_sample_of_which_nothing_is_known_promises_nothing():
    layer = ra.AttentionLayer.single_head(torch.eye(1).double(), torch.eye(1).double())
    batch = ra.TokenMeasure.uniform(torch.tensor([[[1.0], [0.0]], [[1e300], [0.0]], [[2.0], [0.0]]]).double())
    certificate = ra.certify(layer, batch, ra.Wasserstein(0.01))
    assert [math.isnan(each.output_change) for each in certificate.samples] == [False, True, False]
    assert math.isnan(certificate.output_change)
    assert certificate.bound is None


@pytest.mark.parametrize("shape", [(0, 2, 1), (2, 0, 1), (2, 2, 2, 1)])
def test_what_is_neither_a_measure_nor_a_batch_is_said(shape):
    layer = ra.AttentionLayer.single_head(torch.eye(1).double(), torch.eye(1).double())
    masses = torch.full(shape[:-1], 0.5).double()
    measure = ra.TokenMeasure(torch.zeros(shape).double(), masses, torch.zeros(shape[:-1], dtype=torch.int64))
    for promise in (ra.certify, ra.certify_measures):
        with pytest.raises(ValueError, match="of a measure or"):
            promise(layer, measure, ra.Wasserstein(0.01, support=9.0))
    with pytest.raises(ValueError, match="of one measure"):
        ra.certified_radius(layer, measure, ra.Wasserstein, 0.1)
