import pytest

from robust_attn.data.settings import SOURCES, Gaussian, ImageFolder, Sphere, TextFile
from robust_attn.types import FieldError


@pytest.mark.parametrize(
    ("source", "value"), [(Gaussian, 0.0), (Gaussian, float("nan")), (Sphere, -1.0), (Sphere, 1e999)]
)
def test_scales_that_mean_nothing_are_refused(source, value):
    with pytest.raises(FieldError, match="above 0, got"):
        source(value)


@pytest.mark.parametrize("source", [TextFile, ImageFolder])
def test_an_empty_path_is_refused(source):
    """It would be the folder where the command was typed."""
    with pytest.raises(FieldError, match=r"^path is empty: expected a "):
        source(" ")


def test_names_are_different():
    assert len({source.name for source in SOURCES}) == len(SOURCES)
