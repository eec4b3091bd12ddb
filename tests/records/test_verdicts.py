"""One order of verdicts."""

from itertools import combinations

from robust_attn.records.verdicts import FROM_BAD_TO_GOOD, badness, verdict_counts, worst_verdict
from robust_attn.types import Verdict


def test_the_worst_of_two_is_the_one_that_comes_first():
    for bad, good in combinations(FROM_BAD_TO_GOOD, 2):
        assert worst_verdict([good, None, bad]) is bad
        assert badness(bad) > badness(good)


def test_of_nothing_there_is_no_worst():
    assert worst_verdict([None]) is None


def test_every_verdict_is_counted():
    assert verdict_counts([Verdict.HOLDS, None]) == {verdict: int(verdict is Verdict.HOLDS) for verdict in Verdict}
