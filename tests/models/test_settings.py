import pytest

from robust_attn.models.catalog import CATALOG
from robust_attn.models.settings import ModelSettings, choice_of
from robust_attn.settings import read
from robust_attn.types import FieldError


@pytest.mark.parametrize("name", CATALOG)
def test_a_choice_has_the_name_of_its_model_and_says_where_its_weights_are(name):
    choice = choice_of(CATALOG[name])
    assert issubclass(choice, ModelSettings)
    assert (choice.name, choice().weights) == (name, "auto")
    assert CATALOG[name].hub is None or CATALOG[name].hub in choice.__doc__


def test_only_what_reads_images_brings_its_data():
    assert {name for name, spec in CATALOG.items() if choice_of(spec).reads} == {"vit"}


@pytest.mark.parametrize("sizes", [3, "a", [1], {1: 2}])
def test_sizes_are_names_with_values(sizes):
    assert (
        read(ModelSettings, {"weights": "random", "tokenizer": None, "sizes": {"hidden_size": 8}}).weights == "random"
    )
    with pytest.raises(FieldError, match=r"^sizes must be names with values, such as \{hidden_size:64\}, got"):
        read(ModelSettings, {"weights": "random", "tokenizer": None, "sizes": sizes})
