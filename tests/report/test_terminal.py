"""What a person sees on a screen."""

import io
import logging

import pytest
from rich.console import Console

from robust_attn.report.asked import view_of
from robust_attn.report.terminal import debug_messages, print_view, record_line, rich_table, told_at_once
from robust_attn.views.table import Align, Cell, Column, Table
from tests.records.samples import attack_record, certify_record, constant_record
from tests.views.runs import KINDS, run_of


@pytest.mark.parametrize("kind", KINDS)
def test_the_headline_comes_first_then_the_tables_of_the_run(kind):
    view = view_of(run_of(*KINDS[kind]))
    screen = Console(record=True, width=200, file=io.StringIO())
    print_view(view, screen)
    text = " ".join(screen.export_text().split())
    assert text.startswith(view.statement.headline.title)
    for table in view.every_table:
        assert (table.title[:40] in text) == table.terminal


def test_heads_have_a_column_of_their_own():
    screen = Console(record=True, width=300, file=io.StringIO())
    print_view(view_of(run_of(certify_record(0), certify_record(0, 1), certify_record(0, 10))), screen)
    rows = [line.split()[:2] for line in screen.export_text().splitlines() if "HOLDS" in line]
    assert rows == [["0", "—"], ["0", "1"], ["0", "10"]]


def test_a_record_is_one_line():
    line = record_line(attack_record(3, 1))
    assert line == "layer 3, sample 1, tokens 3: output moved 0.1500 at most 0.2000 by local.second_order HOLDS"
    assert record_line(constant_record(0)) == "layer 0, sample 0, tokens 8:"


def test_messages_are_shown_while_asked_for_and_the_logger_is_as_it_was_afterwards():
    console, logger = (
        Console(record=True, width=100, file=io.StringIO()),
        logging.getLogger("robust_attn"),
    )
    before = (logger.level, list(logger.handlers))
    with debug_messages(console):
        logging.getLogger("robust_attn.run").debug("a [record] seen")
    logging.getLogger("robust_attn.run").debug("not seen")
    assert console.export_text().split("\n")[0].rstrip() == "a [record] seen"
    assert (logger.level, logger.handlers) == before


def test_a_job_beside_others_speaks_once_when_it_ends_and_draws_no_bars(capsys):
    with told_at_once(3) as screen:
        screen.print("report: here")
        assert not screen.is_terminal
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "job 3 has ended:\nreport: here\n"


def test_titles_are_broken_where_the_column_has_no_room_and_equations_stay_whole():
    columns = [Column("n = 4"), Column("Moves at most"), Column("Certified by", Align.LEFT)]
    table = Table("t", "t", columns, [[Cell("4.078"), Cell("0.1"), Cell("local.second_order")]])
    screen = Console(file=io.StringIO(), width=80)
    screen.print(rich_table(table, 80))
    words = screen.file.getvalue().split("\n")
    assert any("Certified by" in line for line in words)
    assert any("n\u00a0=\u00a04" in line for line in words)
    assert not any("Moves at most" in line for line in words)
