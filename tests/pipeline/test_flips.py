"""Every way to flip in one record: in the norm of the budget, null where it does not apply."""

import math
from functools import cache

import pytest

from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.pipeline.flips import FlipHunt, FlipOptions, typed_rows
from tests.through.cases import ids, image_victim, text_victim

OPTIONS = FlipOptions(("move", "one_word", "split", "typed"), 0.3, steps=4, restarts=0, words=3, context=64, edits=2)
TEXT = ids(1)[0]


@cache
def hunted(kind):
    return FlipHunt(text_victim(), TEXT, kind(0.0), OPTIONS, seed=0, sample=0).flips()


def test_all_ways_in_the_norm_of_all_tokens():
    found = hunted(Frobenius)
    assert set(found.radii) == {"move", "one_word", "split", "typed"}
    assert found.radii["typed"] is None
    assert 0 < found.radii["split"] <= found.radii["move"] * (1 + 1e-9)
    assert found.radii["move"] <= 1.3 * found.radii["one_word"]
    assert found.search.words == 3
    assert found.search.word in range(3)
    assert found.search.gradients > 0
    assert found.search.smallest_mass >= 1 / 64 - 1e-12
    assert math.hypot(*found.search.motion.rms) == pytest.approx(found.radii["move"], rel=1e-3)
    assert found.typed.edits == len(found.typed.what)
    assert found.typed.edits in (1, 2)


def test_splitting_is_measured_by_root_mean_squares():
    """The same search: its Frobenius radius is sqrt 5 times its W2 radius."""
    assert hunted(Frobenius).radii["split"] == pytest.approx(math.sqrt(5) * hunted(Wasserstein).radii["split"], rel=0.3)


def test_parts_of_a_token_have_no_radius_per_token():
    options = FlipOptions(("split",), 0.5, steps=2, restarts=0)
    assert FlipHunt(text_victim(), TEXT, PerToken(0.0), options, seed=0, sample=0).flips().radii == {"split": None}


def test_images_have_no_words():
    options = FlipOptions(("one_word", "split", "typed"), 0.5, steps=1, restarts=0)
    found = FlipHunt(image_victim(), None, Frobenius(0.0), options, seed=0, sample=0).flips()
    assert found.radii == {"one_word": None, "split": None, "typed": None}
    assert found.typed is None


def test_typed_rows_are_limited():
    assert typed_rows(text_victim(), TEXT) == [0, 1, 2, 3, 4]
    assert typed_rows(text_victim(), TEXT, 2) == [0, 1]
    assert typed_rows(image_victim(), None) == []
