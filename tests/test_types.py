from robust_attn.types import ExitStatus, Verdict


def test_exit_statuses_of_the_contract():
    assert [int(status) for status in ExitStatus] == [0, 1, 2, 3, 4]


def test_verdicts_of_the_contract():
    assert [str(verdict) for verdict in Verdict] == ["HOLDS", "VIOLATED", "VACUOUS", "UNKNOWN"]
