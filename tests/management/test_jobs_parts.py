"""The parts of `manage.py jobs`: tables, texts and what people write."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobexec.clock import FrozenClock
from jobexec.management.jobs.arguments import values
from jobexec.management.jobs.output.screen import plain
from jobexec.management.jobs.output.table import Cell, Column, table
from jobexec.management.jobs.output.text import clean, clean_lines, cut, width_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = [Column("id"), Column("name", least=4), Column("n", right=True), Column("note", least=3, extra=1)]


class TestTable:
    def test_as_wide_as_it_gets(self):
        rows = [["a", "first", "1", "x"], ["bb", "second one", "1000", "y"]]
        assert list(table(COLUMNS, rows, None)) == [
            "id  name           n  note",
            "a   first          1  x",
            "bb  second one  1000  y",
        ]

    def test_what_is_long_is_cut_and_what_is_extra_goes(self):
        rows = [["a", "x" * 50, "1", "y" * 50]]
        assert list(table(COLUMNS, rows, 20)) == ["id  name   n  note", "a   xxxx…  1  yyyyy…"]
        assert list(table(COLUMNS, rows, 14)) == ["id  name     n", "a   xxxxxx…  1"]

    def test_what_is_cut_first(self):
        columns = [Column("id", least=3, first=True), Column("name", least=3)]
        assert list(table(columns, [["0123456789", "x" * 12]], 18)) == ["id    name", "012…  xxxxxxxxxxxx"]
        assert list(table(columns, [["0123456789", "x" * 12]], 13)) == ["id   name", "01…  xxxxxxx…"]

    def test_what_must_stay_stays(self):
        assert list(table([Column("id")], [["x" * 30]], 10)) == ["id", "x" * 30]
        assert list(table(COLUMNS, [], 20)) == ["id  name  n  note"]

    def test_the_end_of_a_name_tells_most(self):
        column = [Column("handler", least=5, keep_end=True)]
        assert list(table(column, [["shop.orders.ship"]], 8))[1] == "…rs.ship"

    def test_colours_have_no_width(self):
        rows = [[Cell("a", lambda text: f"<{text}>"), "b"]]
        assert list(table([Column("col"), Column("d")], rows, None))[1] == "<a  >  b"


class TestText:
    def test_nothing_steers_the_terminal(self):
        assert clean("a\x1b[31m\r\nb\x07\u202e") == "a [31m  b  "
        assert clean_lines("one\n\ttwo\x1b[2J\n") == ["one", "    two [2J"]

    def test_signs_that_take_two_columns_or_none(self):
        assert width_of("日本") == 4 and width_of("e\u0301") == 1
        assert cut("日本語", 5) == "日本…" and width_of(cut("日本語", 4)) <= 4
        assert cut("short", 5) == "short" and cut("longer", 5) == "long…"


class TestMoments:
    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("now", NOW),
            ("2026-03-01T14:30", datetime(2026, 3, 1, 14, 30, tzinfo=UTC)),
            ("2026-03-01 14:30:05", datetime(2026, 3, 1, 14, 30, 5, tzinfo=UTC)),
            ("2026-03-01T14:30+02:00", datetime(2026, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2)))),
            ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
            ("+2h", NOW + timedelta(hours=2)),
            ("-30m", NOW - timedelta(minutes=30)),
            ("in 7d", NOW + timedelta(days=7)),
            ("in 7 d", NOW + timedelta(days=7)),
            ("90s ago", NOW - timedelta(seconds=90)),
            ("1.5h ago", NOW - timedelta(minutes=90)),
        ],
    )
    def test_what_is_understood(self, text, moment):
        with FrozenClock(NOW):
            assert values.moment(text) == moment

    @pytest.mark.parametrize("text", ["", "2h", "+2h ago", "yesterday", "2026-02-30", "2026-13-01T00:00", "+9999999d"])
    def test_what_is_not(self, text):
        with pytest.raises(ArgumentTypeError, match=r"expected a date such as 2026-03-01T12:00, .*; got"):
            values.moment(text)

    def test_lengths(self):
        assert [values.length(text) for text in ("90s", "15m", "2h", "7d")] == [
            timedelta(seconds=90),
            timedelta(minutes=15),
            timedelta(hours=2),
            timedelta(days=7),
        ]
        for text in ("", "0s", "2", "-2h", "PT2H", "36526d", "9999999999d"):
            with pytest.raises(ArgumentTypeError, match="expected a duration such as 90s"):
                values.length(text)

    def test_counts(self):
        assert values.count("50") == 50
        for text in ("-1", "1.5", "many"):
            with pytest.raises(ArgumentTypeError, match="expected a number of at least 0"):
                values.count(text)


def test_what_json_has_no_word_for():
    assert plain(NOW.replace(microsecond=1)) == "2026-03-01T12:00:00.000001+00:00"
    assert plain(timedelta(milliseconds=1500)) == 1.5
    with pytest.raises(TypeError):
        plain(object())
