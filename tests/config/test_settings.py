from pathlib import Path

import pytest

from robust_attn.cli import configuration_folder
from robust_attn.config.choices import USUAL, choices
from robust_attn.config.run import GROUPS
from robust_attn.config.settings import settings_from
from robust_attn.models.catalog import CATALOG
from robust_attn.pipeline.layers import budget_at
from robust_attn.settings import called
from robust_attn.types import UserError
from tests.composed import composed

NEEDS = {f"data/{name}": ["data.path=x"] for name in ("text", "rows", "images")}
EXPERIMENTS = sorted(path.stem for path in (configuration_folder() / "experiment").glob("*.yaml"))
OPTIONS = [f"{group}/{name}" for group in GROUPS for name in choices(group)]


@pytest.mark.parametrize("option", [*OPTIONS, *(f"experiment/{name}" for name in EXPERIMENTS)])
def test_every_option_composes_and_is_instantiated(option):
    group, name = option.split("/")
    settings = settings_from(composed(f"{group}={name}", *NEEDS.get(option, [])))
    assert settings.attack.made().name == settings.attack.name
    assert budget_at(settings).kind == settings.budget.name
    assert settings.data.made() == settings.data
    assert settings.model.name in CATALOG
    assert group == "experiment" or called(type(getattr(settings, group))) == name


def test_every_model_of_the_catalog_can_be_chosen():
    assert set(choices("model")) == set(CATALOG)


def test_the_usual_choices_are_those_of_the_configuration_file():
    settings = settings_from(composed())
    assert {group: getattr(settings, group).name for group in GROUPS} == USUAL


def test_an_image_model_brings_its_data_unless_others_are_chosen():
    assert settings_from(composed("model=vit")).data.name == "digits"
    assert settings_from(composed("model=vit", "data=gaussian")).data.name == "gaussian"


def test_experiments_name_their_command_first():
    for path in Path(configuration_folder(), "experiment").glob("*.yaml"):
        lines = path.read_text().splitlines()
        assert lines[0] == "# @package _global_"
        assert lines[1] == f"# python -m robust_attn experiment={path.stem}"


def test_defaults_of_the_contract():
    settings = settings_from(composed())
    assert (settings.tokens, settings.samples, settings.seed, settings.dtype) == (32, 4, 0, "float64")
    assert (settings.layers, settings.device) == ("all", "auto")
    assert (settings.budget.name, settings.budget.radius, settings.budget.support) == ("wasserstein", 0.01, "auto")
    assert (settings.attack.name, settings.data.name, settings.model.name) == ("move", "prose", "bert")
    assert (settings.tracker.name, settings.tracker.mode) == ("wandb", "offline")


@pytest.mark.parametrize("name", ["tolerance", "task.tolerance"])
def test_a_tolerance_is_understood_under_both_names(name):
    assert settings_from(composed("task=certify", f"{name}=0.25")).task.tolerance == 0.25
    with pytest.raises(UserError, match=r"task\.tolerance must be above 0, got -1"):
        settings_from(composed("task=certify", f"{name}=-1"))


def test_no_tolerance_unless_asked_and_none_for_other_tasks():
    assert settings_from(composed("task=certify")).task.tolerance is None
    with pytest.raises(UserError, match="setting of task=certify; there is none in task=attack"):
        settings_from(composed("tolerance=0.1"))


def test_layers_are_a_list_without_repetition():
    assert settings_from(composed("layers=[3,0,3]")).layers == (3, 0)
    assert settings_from(composed("layers=2")).layers == (2,)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("tokens=0", "tokens must be at least 1"),
        ("samples=-1", "samples must be at least 1"),
        ("budget.radius=-0.1", r"^budget\.radius must be at least 0, got -0.1\.$"),
        ("budget.radius=inf", r"^budget\.radius must be finite and at least 0, got inf\.$"),
        ("budget.radius=nan", "finite and at least 0, got nan"),
        ("dtype=float16", "dtype must be one of"),
        ("device=tpu", "device must be auto, cpu, cuda, cuda:NUMBER or mps"),
        ("layers=[a]", "layers must be"),
        ("layers=[]", "layers must be"),
        ("model.sizes=3", "model.sizes must be"),
        ("layers=true", "layers must be"),
        ("attack.steps=-1", "attack.steps"),
        ("tracker.mode=sometimes", "tracker.mode"),
        ("certificate.failure_probability=0", "between 0 and 1"),
        ("certificate.lanczos_steps=0", "lanczos_steps"),
        ("seed=-1", "seed must be a whole number from 0 to 4294967295, got -1"),
        ("attack.steps=-1", r"^attack\.steps must be at least 0, got -1\.$"),
        ("seed=4294967296", "seed must be a whole number from 0 to 4294967295, got 4294967296"),
        (f"seed={10**30}", "seed must be a whole number from 0 to 4294967295"),
        ("model.weights=", "model.weights is empty: expected auto, random, pretrained or a folder"),
        ("model.weights=' '", "model.weights is empty"),
        ("model.tokenizer=", "model.tokenizer is empty: expected a folder"),
    ],
)
def test_wrong_values_are_one_sentence(override, words):
    with pytest.raises(UserError, match=words) as caught:
        settings_from(composed(override))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", ["data=text", "data=rows", "data=images"])
def test_an_empty_path_is_one_sentence(data):
    with pytest.raises(
        UserError, match=r"data\.path is empty: expected a (UTF-8 text file|file that is a table|folder of images), "
    ):
        settings_from(composed(data, "data.path="))


def test_the_tokenizer_is_that_of_the_weights_unless_told():
    assert settings_from(composed()).model.tokenizer is None
    assert settings_from(composed("model.tokenizer=folder")).model.tokenizer == "folder"


def test_a_whole_model_is_not_attacked_in_bfloat16():
    assert settings_from(composed("dtype=bfloat16")).dtype == "bfloat16"
    with pytest.raises(UserError, match="dtype must be float64 or float32"):
        settings_from(composed("task=through_model", "dtype=bfloat16"))


def test_lengths_of_the_lipschitz_task():
    with pytest.raises(UserError, match="two different"):
        settings_from(composed("task=lipschitz", "task.lengths=[4,4]"))
    with pytest.raises(UserError, match="at least 1"):
        settings_from(composed("task=lipschitz", "task.lengths=[0,4]"))


def test_windows_of_the_lipschitz_task_are_ten():
    assert settings_from(composed("task=lipschitz")).task.windows == 10


@pytest.mark.parametrize(
    ("task", "override", "words"),
    [
        ("lipschitz", "task.windows=0", "task.windows must be at least 1"),
        ("lipschitz", "task.radii=[0]", "task.radii must be above 0, got 0.0"),
        ("lipschitz", "task.mask=some", "task.mask must be one of"),
        ("adversarial", "task.A=[[1,2]]", "square matrix"),
        ("adversarial", "task.A=[]", "square matrix"),
        ("adversarial", "task.A=[[a]]", "square matrix"),
        ("adversarial", "task.lengths=[1,2]", "at least 2"),
        ("mean_field", "task.beyond=[1]", "at least 2"),
        ("unbalanced", "task.atoms=[1]", "task.atoms must be at least 2"),
        ("mass_splitting", "task.balances=[1.0]", "task.balances must be between 0 and 1, got 1.0"),
        ("mass_splitting", "task.slivers=[0.5]", "task.slivers must be between 0 and 0.5, got 0.5"),
        ("radius", "task.tokens=2", "task.tokens must be at least 3"),
        ("worst_case", "task.radius=-1", "at least 0, got -1"),
    ],
)
def test_wrong_settings_of_experiments_are_one_sentence(task, override, words):
    with pytest.raises(UserError, match=words) as caught:
        settings_from(composed(f"task={task}", override))
    assert "\n" not in str(caught.value)


def test_every_experiment_of_the_issue_is_there_with_a_quick_variant():
    names = {path.stem for path in Path(configuration_folder(), "experiment").glob("*.yaml")}
    asked = {"figure4", "adversarial", "radius", "mean_field", "mass_splitting", "unbalanced", "tightness"}
    assert asked | {f"{name}_quick" for name in asked} <= names


def test_a_model_can_be_chosen_over_that_of_an_experiment():
    settings = settings_from(composed("experiment=figure4_quick", "model=smollm2", "task.windows=4"))
    assert settings.model.name == "smollm2"
    assert (settings.task.name, settings.task.windows) == ("lipschitz", 4)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("attack.name=foo", "There is no attack 'foo'; there are: move"),
        ("data.name=foo", "There is no data 'foo'; there are: prose"),
        ("task.name=certify", "task.heads is missing; choose another task as a whole"),
        ("budget.kind=foo", "There is no budget 'foo'; there are: wasserstein"),
        ("model.name=foo", "There is no model 'foo'; there are: bert"),
    ],
)
def test_a_name_changed_inside_a_group_is_one_sentence(override, words):
    with pytest.raises(UserError, match=words):
        settings_from(composed(override))
