"""The judge on hand-made histories of schedules and their firings."""

import pytest

from tests.chaos.rules import schedules as rules
from tests.chaos.rules.stories import A, Story, bad, good

SAVED, CAUGHT_UP = 1000.4, 1010.9


def scheduled(name="every-second", misfire="all", **made):
    """A schedule with a job for each of these, by its time: when that was told, by the wall clock."""
    story = Story().tell(0, "schedule", w=SAVED, name=name, misfire=misfire, threshold=3)
    firings = []
    for job, (time, wall) in made.items():
        plain = {"kind": "scheduled", "instance": "", "exclusive": False, "atomic": False, "retries": 3, "tenant": ""}
        story.tell(1, "creating", w=wall, jobs=[{"id": job, **plain}], scheduled_for=time)
        firings.append({"schedule": name, "time": float(time), "job": job})
    story.more = {"firings": firings}
    return story.tell(9, "caught-up", until=CAUGHT_UP)


def every(but=(), step=1, **named):
    times = [time for time in range(1001, 1011, step) if time not in but]
    return scheduled(**{f"j{time}": (time, time + 0.1) for time in times}, **named)


def test_a_time_has_one_job_and_a_job_one_time():
    good(rules.each_time_has_one_job, every())
    story = every()
    story.more["firings"].append({"schedule": "every-second", "time": 1003.0, "job": "j1003"})
    bad(rules.each_time_has_one_job, story, "has fired 1003.0 2 times")
    story = every()
    story.more["firings"].append({"schedule": "every-second", "time": 1003.5, "job": "j1003"})
    bad(rules.each_time_has_one_job, story, "not for one time")
    story.more["firings"][-1]["job"] = "unknown"
    bad(rules.each_time_has_one_job, story, "nobody has told")


def test_a_job_for_another_time_than_its_firing():
    story = every()
    story.more["firings"][2]["time"] = 1003.5
    bad(rules.each_time_has_one_job, story, "was not made for")


def test_a_job_without_a_firing_must_never_have_been():
    story = every()
    del story.more["firings"][0]
    good(rules.each_time_has_one_job, story)
    bad(rules.each_time_has_one_job, story.run(2, 3, "j1001", A), "has not noted it")
    story = every()
    del story.more["firings"][0]
    bad(rules.each_time_has_one_job, story.row("j1001", "timer"), "has not noted it")


def test_a_run_knows_its_time():
    def ran(time):
        story = every().begin(2, "j1001", A)
        run = {"job": "j1001", "owner": A, "attempt": 1, "result": "ok", "held": True, "asked": 3}
        return story.tell(3, "end", 11, scheduled_for=time, **run)

    good(rules.runs_know_their_time, ran(1001.0))
    bad(rules.runs_know_their_time, ran(None), "made for None")
    bad(rules.runs_know_their_time, ran(1002.0), "made for 1002.0")


def test_no_time_is_missing():
    good(rules.no_time_is_missing, every())
    for gone in (1001, 1005, 1010):
        bad(rules.no_time_is_missing, every(but=[gone]), f"has not fired {gone} to {gone}")
    good(rules.no_time_is_missing, every(name="odd-seconds", step=2))
    bad(rules.no_time_is_missing, every(name="odd-seconds"), "none of its times")
    bad(rules.no_time_is_missing, every(name="even-seconds", step=2), "none of its times")


def test_what_was_fired_by_hand_is_no_time():
    story = scheduled(hand=(1004.25, 1004.3), **{f"j{time}": (time, time) for time in range(1001, 1011)})
    good(rules.no_time_is_missing, story)
    story = scheduled(hand=(1004.25, 1004.3), **{f"j{t}": (t, t) for t in range(1001, 1011) if t != 1004})
    bad(rules.no_time_is_missing, story, "has not fired 1004 to 1004")


@pytest.mark.parametrize("misfire, latest", [("once", 1006), ("skip", 1007)])
def test_times_may_be_missed_only_when_somebody_came_too_late(misfire, latest):
    def story(came):
        made = {f"j{time}": (time, max(time + 0.1, came if time > 1004 else 0)) for time in (1001, 1002, 1005)}
        rest = {f"j{time}": (time, time + 0.1) for time in range(1006, 1011)}
        return scheduled(misfire=misfire, **made, **rest)

    good(rules.no_time_is_missing, story(latest + 0.1))
    bad(rules.no_time_is_missing, story(latest - 0.2), f"({misfire}) has not fired 1003 to 1004")


def test_all_makes_good_whatever_was_missed():
    made = {f"j{time}": (time, 1010.5) for time in range(1001, 1011)}
    good(rules.no_time_is_missing, scheduled(**made))
    del made["j1003"]
    bad(rules.no_time_is_missing, scheduled(**made), "has not fired 1003 to 1003")


def test_a_schedule_that_nobody_fires():
    for misfire in ("all", "once", "skip"):
        bad(rules.no_time_is_missing, scheduled(misfire=misfire), "none was made afterwards")


def test_a_run_that_was_broken_off_says_nothing_of_what_is_missing():
    story = every(but=[1005])
    story.lines = [line for line in story.lines if line["what"] != "caught-up"]
    good(rules.no_time_is_missing, story)
