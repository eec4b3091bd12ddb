import base64
import hashlib
import re

import jinja2
import pytest

from robust_attn.report.page import rendered, trusted


def page(**values: object) -> str:
    return rendered("base.html.j2", {"title": "t", "subtitle": "", **values})


def test_the_only_script_is_the_one_that_the_policy_allows_by_hash() -> None:
    text = page()
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_values_are_escaped_and_only_own_markup_is_not() -> None:
    assert "<title>&lt;b&gt;&amp;</title>" in page(title="<b>&")
    assert "<b>&</b>" in page(subtitle=trusted("<b>&</b>"))


def test_a_value_that_a_template_misses_is_an_error_and_not_a_gap() -> None:
    with pytest.raises(jinja2.UndefinedError, match="title"):
        rendered("base.html.j2", {"subtitle": ""})
