"""Templates into one self-contained page: style and script inlined, everything else escaped, nothing fetched."""

import base64
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from robust_attn.views import numerals

if TYPE_CHECKING:
    import jinja2


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """The page of `template`; its only script is allowed by hash, so that no text in a record can ever run."""
    style, script = _text("style.css"), _text("tables.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    markup = _markup()
    inlined = {"style": markup(style), "script": markup(script), "policy": markup(policy)}
    return _environment().get_template(template).render(**inlined, **values)


def trusted(svg: str) -> str:
    """Markup that this package drew itself, with its texts already escaped."""
    return _markup()(svg)


def _markup() -> type[str]:
    from markupsafe import Markup

    return Markup


def _text(name: str) -> str:
    return resources.files("robust_attn.report").joinpath("templates", name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> "jinja2.Environment":
    """One for all pages of a process: it keeps the templates that it has compiled, which takes longer than to fill."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("robust_attn.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["at_least"] = numerals.at_least
    return environment
