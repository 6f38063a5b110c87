"""Charts: scales with round ends, shapes that stay inside, nothing that is drawn where there is nothing."""

import re
from xml.etree import ElementTree

import pytest

from jobexec.admin.dashboard import charts


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (1, 1), (2, 2), (7, 8), (9, 10), (10, 10), (11, 15), (99, 100), (1207, 1500), (5001, 6000)],
)
def test_scales_end_at_round_numbers(value, top):
    assert charts.nice_top(value) == top


def bars(*layers):
    tips = [f"<{number}>" for number in range(len(layers[0][1]))]
    return ElementTree.fromstring(charts.stacked_bars("flow", "Jobs & more", "In words", layers, tips))


def test_bars_stand_on_each_other_and_stay_inside():
    svg = bars(("done", [10, 0, 1000, 1000]), ("failed", [0, 0, 1, 0]))
    assert svg.get("viewBox") == "0 0 4 100"
    shapes = [rect for rect in svg.iter("rect") if rect.get("class") != "jobexec-space"]
    drawn = [(rect.get("class"), rect.get("x"), float(rect.get("y")), float(rect.get("height"))) for rect in shapes]
    done, _, failed = sorted(drawn[1:])
    assert drawn[0] == ("done", "0.1", 98.0, 2.0)  # however little, it can be seen
    assert (done[0], failed[0]) == ("done", "failed")
    assert failed[2] + failed[3] == pytest.approx(done[2], abs=0.01)
    assert all(y >= 0 and y + height <= 100.01 for _, _, y, height in drawn)


def test_one_much_larger_value_does_not_flatten_the_others():
    assert charts.fair_top([10] * 20 + [12, 1000]) == 15
    assert charts.fair_top([10] * 20 + [30]) == 30, "not so much larger"
    assert (charts.fair_top([]), charts.fair_top([0, 7])) == (0.0, 7)
    assert charts.fair_top([10, 11, 12, 13, 1000]) == 1000, "too few to know what is usual"
    svg = bars(("done", [10] * 20 + [1000]))
    heights = [float(each.get("height")) for each in svg.iter("rect") if each.get("class") == "done"]
    assert heights[0] == pytest.approx(10 / 15 * 100, abs=0.01)
    assert heights[-1] == 100, "it is cut"
    assert [each.get("x") for each in svg.iter("rect") if each.get("class") == "jobexec-cut"] == ["20.1"]


def test_what_is_said_is_escaped():
    svg = bars(("done", [1]))
    assert [title.text for title in svg.iter("title")] == ["Jobs & more", "<0>"]
    assert svg.get("aria-labelledby") == "flow-title flow-desc"
    assert {element.get("id") for element in svg.iter() if element.get("id")} == {"flow-title", "flow-desc"}


def test_curves_break_where_there_is_nothing():
    svg = charts.lines("wait", "Waiting", "", [("high", [None, 1.0, 2.0, None, 4.0])], top=4.0)
    assert re.findall(r'class="high" d="([^"]*)"', svg) == ["M1.5 75.00h0L2.5 50.00M4.5 0.00h0"]


def test_no_curve_without_values():
    svg = charts.lines("wait", "Waiting", "", [("high", [None, None])], top=1.0)
    assert 'class="high"' not in svg


def test_numbers_are_those_of_svg_in_every_language(settings):
    from django.utils import translation

    with translation.override("de"):
        svg = charts.lines("wait", "Waiting", "", [("high", [0.5])], top=1.0)
    assert 'd="M0.5 50.00h0"' in svg
