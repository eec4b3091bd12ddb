"""What Hydra and OmegaConf have to say of a configuration, in one sentence."""

from __future__ import annotations

import re

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException, ValidationError

from robust_attn.config.grammar import unreadable
from robust_attn.config.run import GROUPS
from robust_attn.types import UserError

WRONG_CONFIGURATION = (HydraException, OmegaConfBaseException, UserError)
"""Errors that are about what was typed; so is one of OmegaConf's that is none of these (`is_about_settings`)."""
TOO_LARGE = re.compile(r"too large to convert to float full_key: (\S+)")
INTERNALS = re.compile(r"\s*(full_key|object_type|reference_type)[:=].*")
NO_OPTION = re.compile(r"Could not find '([\w/]+)/([^']*)' Available options in '[^']*': (.*?) Config search path")
NO_SETTING = re.compile(r"Could not override '([^']*)'")
WRONG_KIND = re.compile(
    r"Value '(.*?)' (?:of type '\w+' )?(?:could not be converted to|is not a valid) (Integer|Float|bool)"
)
KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def is_about_settings(error: BaseException) -> bool:
    """Whether what was typed is wrong, and not what was done with it."""
    return isinstance(error, WRONG_CONFIGURATION) or _too_large(error) is not None


def _too_large(error: BaseException) -> str | None:
    """The setting for which a whole number is given that no float can hold."""
    found = TOO_LARGE.search(" ".join(str(error).split())) if isinstance(error, OverflowError) else None
    return None if found is None else found[1]


def sentence_of(error: BaseException) -> str:
    """What Hydra, OmegaConf or this package has to say, as one sentence without their internals."""
    text = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        return unreadable(error.override, _grammar(text))
    if missing := NO_OPTION.search(text):
        group, name, known = missing.groups()
        return f"There is no {group} {name!r}; there are: {', '.join(known.split())}."
    if unknown := NO_SETTING.search(text):
        group = unknown[1].partition(".")[0]
        chosen = f" with the {group} chosen" if group in GROUPS else ""
        return f"There is no setting {unknown[1]!r}{chosen}; python -m robust_attn --cfg job lists them all."
    return _of_value(error) or _plain(error)


def _of_value(error: BaseException) -> str | None:
    """What is wrong with the value of a setting, if that is what is wrong."""
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} must be given."
    if key := _too_large(error):
        return f"{key} is too large a number."
    if isinstance(error.__cause__, ValidationError) and (wrong := WRONG_KIND.search(str(error.__cause__))):
        return f"{error.__cause__.full_key} must be {KINDS[wrong[2]]}, got {wrong[1]}."
    return None


def _plain(error: BaseException) -> str:
    """The error's own words without internals."""
    text = " ".join(str(error).split())
    parts = [text] + ([" ".join(str(error.__cause__).split())] if error.__cause__ is not None else [])
    return ": ".join(INTERNALS.sub("", part) for part in parts)


def _grammar(text: str) -> str:
    """What the parser of Hydra expected, nothing where it only shows the place."""
    said = re.sub(r"^Error parsing override '.*' ?(?=\w)", "", text.partition(" See https://")[0])
    return "" if said.startswith("LexerNoViableAlt") else said
