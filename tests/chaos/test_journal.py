"""The journal: whole lines of all processes in the order of time, whatever becomes of the last one."""

import pytest

from tests.chaos.journal import Journal, read, shown


def test_lines_of_all_files_come_in_the_order_of_time(tmp_path):
    one, other = Journal(tmp_path, "one"), Journal(tmp_path, "other")
    one.write("a", job="x")
    other.write("b")
    one.write("c")
    assert [line["what"] for line in read(tmp_path)] == ["a", "b", "c"]
    assert "a  job=x" in shown(read(tmp_path)[0])


def test_a_torn_last_line_is_left_out(tmp_path):
    Journal(tmp_path, "one").write("a")
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + '{"t": 1, "wh')
    assert [line["what"] for line in read(tmp_path)] == ["a"]


def test_a_torn_line_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"t": 1, "wh\n{"t": 2, "what": "a"}\n')
    with pytest.raises(ValueError, match=r"one\.jsonl, line 1"):
        read(tmp_path)
