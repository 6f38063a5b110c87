"""The benchmark's own small SVG writer."""

from xml.etree import ElementTree

import pytest

from demo_project.benchmarks.bars import Bar, Bars
from demo_project.benchmarks.chart import Chart, Panel, ticks, wrapped

SVG = "{http://www.w3.org/2000/svg}"


def a_chart(rows, **values):
    defaults = {"title": "Title", "x_label": "seconds", "y_label": "jobs", "step": 0.5}
    return Chart(**defaults | values, rows=rows)


def read(chart):
    return ElementTree.fromstring(chart.svg())


def points(path):
    """The corners of a line, as pairs of numbers."""
    numbers = [float(part) for part in path.get("d").replace("M", "").replace("L", "").split()]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def lines(document):
    """The lines of the panels, without those of the legend."""
    return [path for path in document.iter(f"{SVG}path") if " L " in path.get("d")]


class TestChart:
    def test_draws_each_line_of_each_panel_in_its_own_style(self):
        panel = Panel("node 1", {"acquired": [1, 2, 3], "failures": [0, 1, 0]})
        document = read(a_chart([[panel, panel], [panel, panel]]))
        assert [path.get("class") for path in lines(document)] == ["line line0", "line line1"] * 4
        assert all(len(points(path)) == 3 for path in lines(document))

    def test_all_panels_have_the_same_axes(self):
        document = read(a_chart([[Panel("one", {"a": [10, 0]}), Panel("other", {"a": [5, 0, 0, 0]})]]))
        (one, other) = map(points, lines(document))
        bottom = one[1][1]
        assert bottom == other[-1][1]
        assert bottom - one[0][1] == pytest.approx(2 * (bottom - other[0][1]), abs=0.2)
        # One panel is as wide as the longest line of all.
        assert one[1][0] - one[0][0] == pytest.approx(other[1][0] - other[0][0], abs=0.2)

    def test_greater_values_are_higher_and_stay_inside(self):
        document = read(a_chart([[Panel("one", {"a": [0, 7, 99]})]]))
        (line,) = map(points, lines(document))
        heights = [y for _, y in line]
        assert heights == sorted(heights, reverse=True)
        width, height = float(document.get("width")), float(document.get("height"))
        assert all(0 < x < width and 0 < y < height for x, y in line)

    def test_says_everything_that_it_is_given(self):
        document = read(a_chart([[Panel("a < b & c", {"acquired": [1]})]], notes=["first", "second"]))
        said = [text.text for text in document.iter(f"{SVG}text")]
        assert {"Title", "acquired", "a < b & c", "Across: seconds. Up: jobs.", "first", "second"} <= set(said)

    def test_is_readable_on_light_and_dark(self):
        text = a_chart([[Panel("one", {"a": [1]})]]).svg()
        assert "prefers-color-scheme: dark" in text
        assert 'fill="var(--paper)"' in text

    @pytest.mark.parametrize("rows", [[], [[]], [[Panel("empty", {"a": []})]], [[Panel("zeros", {"a": [0, 0]})]]])
    def test_can_be_drawn_with_nothing_to_show(self, rows):
        assert read(a_chart(rows)).tag == f"{SVG}svg"


class TestBars:
    def draw(self, **values):
        bars = [Bar("ours", 50, 40, 60, "0.50 of raw"), Bar("raw", 100, 90, 120)]
        return read(Bars(**{"title": "drain, jobs/s", "bars": bars, "notes": ["a note"]} | values))

    def rectangles(self, document):
        return [each for each in document.iter(f"{SVG}rect") if each.get("class")]

    def test_are_as_long_as_their_medians(self):
        ours, raw = self.rectangles(self.draw())
        assert float(raw.get("width")) == pytest.approx(2 * float(ours.get("width")), abs=0.2)
        assert [ours.get("class"), raw.get("class")] == ["bar0", "bar1"]

    def test_show_the_least_and_the_greatest_value(self):
        document = self.draw()
        paths = [path.get("d").split() for path in document.iter(f"{SVG}path") if path.get("class") == "spread"]
        for path, bar, (low, middle, high) in zip(
            paths, self.rectangles(document), [(40, 50, 60), (90, 100, 120)], strict=True
        ):
            left, end = float(bar.get("x")), float(bar.get("x")) + float(bar.get("width"))
            scale = (end - left) / middle
            assert float(path[1]) == pytest.approx(left + low * scale, abs=0.2)
            assert float(path[4]) == pytest.approx(left + high * scale, abs=0.2)

    def test_say_what_they_are(self):
        said = [text.text for text in self.draw().iter(f"{SVG}text")]
        assert {"drain, jobs/s", "ours", "raw", "50.00  (0.50 of raw)", "100", "a note"} <= set(said)

    @pytest.mark.parametrize("bars", [[], [Bar("ours", 0, 0, 0)]])
    def test_can_be_drawn_with_nothing_to_show(self, bars):
        assert self.draw(bars=bars).tag == f"{SVG}svg"


class TestNotes:
    def test_that_are_long_go_on_in_the_next_line(self):
        lines = wrapped(["short", "a long note " * 20])
        assert lines[0] == "short" and len(lines) > 2
        assert max(map(len, lines)) <= 105


class TestTicks:
    @pytest.mark.parametrize(
        "greatest, expected",
        [
            (5, [0, 1, 2, 3, 4, 5]),
            (7, [0, 2, 4, 6, 8]),
            (100, [0, 20, 40, 60, 80, 100]),
            (101, [0, 50, 100, 150]),
            (0.4, [0, 0.1, 0.2, 0.3, 0.4]),
        ],
    )
    def test_are_round_numbers_up_to_the_greatest(self, greatest, expected):
        assert ticks(greatest) == pytest.approx(expected)
