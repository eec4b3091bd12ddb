"""Text that Markdown leaves as it is."""

from robust_attn.report.markdown import escaped, fenced


def test_markup_is_escaped():
    assert escaped("<b>|*x*`") == r"&lt;b&gt;\|\*x\*\`"
    assert escaped("two\n\n# lines") == r"two \# lines"


def test_a_fence_is_longer_than_what_it_holds():
    assert fenced("a ``` b").startswith("````sh\n")
