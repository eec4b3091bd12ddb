import pytest

from robust_attn.report.kinds import Kind, kind_of, kinds_of

from .sample_runs import constant_record, record, search_record


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (record(), Kind.CHECK),
        (record(attack="none") | {"task": "certify"}, Kind.CHECK),
        (search_record(), Kind.SEARCH),
        (constant_record(), Kind.CONSTANT),
        (constant_record() | {"released": 3.0}, Kind.CONSTANT),
        (record() | {"task": "tightness"}, Kind.OTHER),
        (search_record() | {"task": "adversarial"}, Kind.OTHER),
        ({"task": "lipschitz"}, Kind.OTHER),
        ({"task": "worst_case", "certified": None}, Kind.OTHER),
        ({"task": ["odd"]}, Kind.OTHER),
        ({}, Kind.OTHER),
    ],
)
def test_the_kind_follows_the_task_and_the_fields(line: dict, kind: Kind) -> None:
    assert kind_of(line) is kind


def test_every_record_is_of_one_kind_and_keeps_its_place() -> None:
    lines = [record(0), {}, search_record(1), constant_record(0), record(2)]
    kinds = kinds_of(lines)
    assert kinds.checks == (lines[0], lines[4])
    assert (kinds.searches, kinds.constants, kinds.others) == ((lines[2],), (lines[3],), (lines[1],))
