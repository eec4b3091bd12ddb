"""The library example of the README runs as printed, on a pretrained model."""

import re
from pathlib import Path

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_the_library_example_runs_and_its_certificate_holds():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code is not None
    names: dict = {}
    exec(code[1], names)
    assert float(names["result"].observation.output_change) > 0
    assert names["result"].measure.length == 2 * names["tokens"].length
    assert names["sigma"].lower <= names["sigma"].upper
    assert float(names["sigma"].lower) * 0.01 <= names["certificate"].output_change
