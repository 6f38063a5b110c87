"""The judge of workers outside on hand-made histories: finds what is wrong, and lets pass what only looks like it."""

from typing import Any

import pytest

from tests.chaos.outside import rules
from tests.chaos.outside.history import History

DRIVER, GATEWAY, EXECUTOR = 1, 20, 30
PIDS = {"a": 11, "b": 12}


class Tale:
    """Jobs 1 and 2, exclusive in the process instance i; workers a and b. Times are seconds."""

    def __init__(self, callback: str = "effect") -> None:
        self.lines: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {
            name: [] for name in ("rows", "logs", "incidents", "suspended_tenants", "locks", "nodes")
        } | {"effects": {}}
        for key in (1, 2):
            told = {"callback": callback, "instance": "i", "exclusive": True}
            self.tell(0, "creating", DRIVER, number=key, key=key, job=f"j{key}", **told)
            self.tell(0, "created", DRIVER, number=key, came_to="ok")
        for name, pid in PIDS.items():
            self.tell(0, "worker", pid, name=name)

    def tell(self, t: float, what: str, pid: int, **values: Any) -> "Tale":
        self.lines.append({"t": t, "by": "x", "pid": pid, "what": what, **values})
        return self

    def fetch(self, t: float, worker: str, key: int = 1, until: float = 10, lease: str = "") -> "Tale":
        times = {"moment": t, "deadline": until}
        return self.tell(t + 0.01, "grant", GATEWAY, keys=[key], worker=worker, lease=lease, **times)

    def report(self, t: float, verb: str, worker: str, since: float, came_to: str = "ok", **values: Any) -> "Tale":
        """Of the worker that fetched job 1 at `since`; it took 0.1 s. Without a result the worker died meanwhile."""
        number, lease = len(self.lines), values.pop("lease", "")
        hold = {"key": values.pop("key", 1), "worker": worker, "lease": lease, "moment": since}
        self.tell(t, "report", PIDS[worker], number=number, verb=verb, values=values, **hold)
        return self.ended(t + 0.1, "reported", number, came_to) if came_to else self

    def person(self, t: float, verb: str, came_to: str = "ok") -> "Tale":
        number = len(self.lines)
        self.tell(t, "asks", DRIVER, number=number, verb=verb, keys=[1])
        return self.ended(t + 0.1, "asked", number, came_to)

    def ended(self, t: float, what: str, number: int, came_to: str) -> "Tale":
        return self.tell(t, what, DRIVER, number=number, came_to=came_to, said="no" if came_to != "ok" else "")

    def log(self, state: str, handler: str = "pay") -> "Tale":
        self.state["logs"].append({"job_id": "j1", "state": state, "handler_type": handler, "exception_message": ""})
        return self

    def row(self, table: str, **values: Any) -> "Tale":
        plain = {"lock_owner": None, "tenant_id": "", "suspend_requested": False, "exception_message": ""}
        self.state["rows"].append({"table": table, "job": "j1", **plain, **values})
        return self

    def found(self, rule: rules.Rule, key: int | None = 1) -> list[str]:
        history = History(sorted(self.lines, key=lambda line: line["t"]), self.state)
        problems = list(rule(history))
        assert all(problem.shown(0.0) for problem in problems)
        return [problem.text for problem in problems if problem.job is None or problem.job.key == key]


def good(rule: rules.Rule, tale: Tale) -> None:
    assert tale.found(rule) == []


def bad(rule: rules.Rule, tale: Tale, text: str) -> None:
    found = tale.found(rule)
    assert found and text in found[0], found


def done(callback: bool = True) -> Tale:
    tale = Tale().fetch(1, "a").report(2, "complete", "a", 1).log("successful")
    return tale.log("successful", "tests.chaos.outside.jobs.effect") if callback else tale


def test_one_report_ends_a_job():
    good(rules.completed_once, done())
    bad(rules.completed_once, done().report(3, "complete", "a", 1), "was ended 2 times")
    bad(rules.completed_once, done().report(3, "error", "a", 1, code="caught"), "was ended 2 times")
    good(rules.completed_once, done().report(3, "error", "a", 1, code="uncaught"))
    good(rules.completed_once, done().report(3, "complete", "a", 1, "refused"))


def test_the_job_log_knows_each_completion_and_no_other():
    bad(rules.completed_once, Tale().fetch(1, "a").report(2, "complete", "a", 1), "1 accepted completions, 0 in")
    bad(rules.completed_once, done().log("successful"), "1 accepted completions, 2 in")
    bad(rules.completed_once, Tale().fetch(1, "a").log("successful"), "0 accepted completions, 1 in")
    refused = Tale().fetch(1, "a").report(2, "complete", "a", 1, "refused").log("successful")
    bad(rules.completed_once, refused, "0 accepted completions, 1 in")
    good(rules.completed_once, Tale().fetch(1, "a").report(2, "complete", "a", 1, "").log("successful"))
    good(rules.completed_once, Tale().fetch(1, "a").report(2, "complete", "a", 1, "doubt"))


def test_a_refusal_while_the_database_goes_away_may_come_after_the_deed():
    refused = Tale().fetch(1, "a").report(2, "complete", "a", 1, "refused").log("successful")
    good(rules.completed_once, refused.tell(1.5, "server-down", DRIVER).tell(2.05, "server-up", DRIVER))


def test_nobody_gets_what_is_completed_or_was_never_there():
    bad(rules.nothing_follows_the_end, done().fetch(3, "b"), "was given to b after its completion")
    good(rules.nothing_follows_the_end, done().fetch(2.05, "b"))
    rolled_back = Tale().tell(0, "created", DRIVER, number=1, came_to="refused").fetch(1, "a")
    bad(rules.nothing_follows_the_end, rolled_back, "was rolled back")


def test_until_the_deadline_a_job_is_its_workers():
    bad(rules.one_worker_at_a_time, Tale().fetch(1, "a").fetch(5, "b"), "was given to b 4.99 s before")
    good(rules.one_worker_at_a_time, Tale().fetch(1, "a", until=5).fetch(5, "b"))


def test_whoever_is_held_up_between_the_counting_of_a_deadline_and_the_lock():
    def at_once(until, told):
        """b is held up after its deadline was counted; a's deadline is counted before, and locked when told."""
        tale = Tale().tell(1.2, "grant", GATEWAY, keys=[1], worker="b", lease="", moment=1.1, deadline=until)
        return tale.tell(told, "grant", GATEWAY, keys=[1], worker="a", lease="", moment=1, deadline=20)

    good(rules.one_worker_at_a_time, at_once(until=2, told=3))
    bad(rules.one_worker_at_a_time, at_once(until=10, told=3), "was given to b")
    late = Tale().fetch(1, "a", until=3)
    late.tell(3.1, "grant", GATEWAY, keys=[1], worker="b", lease="", moment=2, deadline=4)
    good(rules.one_worker_at_a_time, late)


@pytest.mark.parametrize("came_to", ["ok", "doubt", ""])
def test_a_failure_that_may_have_arrived_frees_a_job(came_to):
    failed = Tale().fetch(1, "a").report(2, "fail", "a", 1, came_to, retries=1)
    good(rules.one_worker_at_a_time, failed.fetch(5, "b"))


def test_what_does_not_free_a_job():
    for tale in (
        Tale().fetch(1, "a").report(2, "fail", "a", 1, "refused"),
        Tale().report(0.5, "fail", "a", 0).fetch(1, "a"),
        Tale().fetch(1, "a").report(6, "fail", "a", 1),
        Tale().fetch(1, "a").person(2, "suspend"),
    ):
        bad(rules.one_worker_at_a_time, tale.fetch(5, "b"), "was given to b")


def test_who_takes_a_job_away_frees_it():
    good(rules.one_worker_at_a_time, Tale().fetch(1, "a").person(2, "unlock").fetch(5, "b"))
    given_back = Tale().fetch(1, "a").tell(1.2, "yielding", GATEWAY, key=1, deadline=10)
    good(rules.one_worker_at_a_time, given_back.fetch(5, "b"))
    of_another = Tale().fetch(1, "a").tell(1.2, "yielding", GATEWAY, key=1, deadline=7)
    bad(rules.one_worker_at_a_time, of_another.fetch(5, "b"), "was given to b")


def test_a_deadline_that_was_moved():
    longer = Tale().fetch(1, "a", until=3).report(2, "extend", "a", 1, timeout=4000)
    bad(rules.one_worker_at_a_time, longer.fetch(5, "b"), "0.99 s before the deadline")
    in_doubt = Tale().fetch(1, "a", until=3).report(2, "extend", "a", 1, "doubt", timeout=4000)
    good(rules.one_worker_at_a_time, in_doubt.fetch(5, "b"))
    shorter = Tale().fetch(1, "a").report(2, "extend", "a", 1, "doubt", timeout=1000)
    good(rules.one_worker_at_a_time, shorter.fetch(5, "b"))
    refused = Tale().fetch(1, "a").report(2, "extend", "a", 1, "refused", timeout=1000)
    bad(rules.one_worker_at_a_time, refused.fetch(5, "b"), "was given to b")


def test_two_of_an_instance_in_two_hands():
    rule = rules.one_of_an_instance_at_a_time
    bad(rule, Tale().fetch(1, "a").fetch(5, "b", 2), "and 2 of i were both in hand for 4.99 s")
    good(rule, Tale().fetch(1, "a", until=5).fetch(5, "b", 2))
    good(rule, Tale().fetch(1, "a").report(4, "complete", "a", 1).fetch(5, "b", 2))
    good(rule, Tale().fetch(1, "a").person(4, "unlock").fetch(5, "b", 2))


def test_one_of_an_instance_in_the_hands_of_an_executor():
    rule = rules.one_of_an_instance_at_a_time
    runs = done().tell(3, "begin", EXECUTOR, job="j1").tell(8, "end", EXECUTOR, job="j1")
    bad(rule, runs.fetch(5, "b", 2), "both in hand for 2.99 s")
    killed = done().tell(3, "begin", EXECUTOR, job="j1").tell(4, "kill", DRIVER, of=EXECUTOR)
    good(rule, killed.fetch(5, "b", 2))
    cut_off = done().tell(3, "begin", EXECUTOR, job="j1").tell(4, "server-down", DRIVER)
    good(rule, cut_off.tell(4.5, "server-up", DRIVER).tell(8, "end", EXECUTOR, job="j1").fetch(5, "b", 2))


def test_a_stale_lease():
    def story(lease, other, came_to="ok"):
        tale = Tale().fetch(1, "a", until=3, lease=lease).fetch(4, "b", lease=other)
        return tale.report(5, "complete", "a", 1, came_to, lease=lease)

    bad(rules.stale_leases_are_refused, story("x", "y"), "complete of a was accepted")
    bad(rules.stale_leases_are_refused, story("", "y"), "complete of a was accepted")
    good(rules.stale_leases_are_refused, story("x", "y", "refused"))
    good(rules.stale_leases_are_refused, story("", ""))  # late, and nobody has a lease


def test_a_lease_of_whoever_has_it_still():
    good(rules.stale_leases_are_refused, Tale().fetch(1, "a", lease="x").report(2, "complete", "a", 1, lease="x"))
    taken = Tale().fetch(1, "a", until=3).fetch(4, "b", lease="y").person(4.5, "unlock")
    good(rules.stale_leases_are_refused, taken.report(5, "complete", "a", 1))


def test_who_holds_a_job_is_heard():
    def refused(tale):
        return tale.report(3, "complete", "a", 1, "refused")

    bad(rules.holders_are_heard, refused(Tale().fetch(1, "a")), "complete of a: no")
    good(rules.holders_are_heard, refused(Tale().fetch(1, "a", until=3)))
    good(rules.holders_are_heard, refused(Tale().fetch(1, "a").person(2, "delete")))
    good(rules.holders_are_heard, refused(Tale().fetch(1, "a").report(2, "complete", "a", 1, "doubt")))
    good(rules.holders_are_heard, refused(Tale().fetch(1, "a", until=2).fetch(2, "b")))


def test_what_follows_a_job_takes_effect_once():
    def story(count, tale=None):
        tale = tale or done()
        tale.state["effects"] = {"j1": count} if count else {}
        return tale

    good(rules.effects_exactly_once, story(1))
    bad(rules.effects_exactly_once, story(0), "took effect 0 times")
    bad(rules.effects_exactly_once, story(2), "took effect 2 times")
    bad(rules.effects_exactly_once, story(1, done(callback=False)), "took effect 1 times")
    alone = Tale().log("successful", "tests.chaos.outside.jobs.effect")
    bad(rules.effects_exactly_once, story(1, alone), "nobody has completed it")


def test_where_a_job_may_end():
    def of(tale):
        return [text for text in tale.found(rules.nothing_lost) if text]

    assert of(done()) == []
    assert of(done(callback=False)) == ["was completed, but effect never ended"]
    assert of(Tale(callback="").log("successful")) == []
    assert of(Tale()) == ["is lost: it is in no table and did not end"]
    assert of(Tale().tell(0, "created", DRIVER, number=1, came_to="refused")) == []
    assert of(Tale().person(1, "cancel").log("cancelled")) == []
    assert of(Tale().log("cancelled")) == ["was removed, and nobody asked for it"]


def test_where_a_row_may_be():
    def of(table, **values):
        return Tale().row(table, **values).found(rules.nothing_lost)

    assert of("external worker", lock_owner="a") == ["is stuck: it is an external worker job of a"]
    assert of("dead letter") == ["is a dead letter that does not say why"]
    assert of("dead letter", exception_message="No more retries left.") == []
    assert of("suspended") == ["is suspended, but no suspension covers it"]
    assert of("suspended", suspend_requested=True) == []
    both = Tale().row("suspended").row("executable")
    assert both.found(rules.nothing_lost) == ["is in several tables: suspended, executable"]
    assert "says that it is gone" in done().row("dead letter").found(rules.nothing_lost)[0]


def test_incidents_are_the_dead_letters():
    tale = Tale().row("dead letter", exception_message="no")
    bad(rules.dead_letters_have_incidents, tale, "1 dead letters, 0 open incidents: ['j1']")
    tale.state["incidents"] = ["j1"]
    good(rules.dead_letters_have_incidents, tale)
    tale.state["incidents"] = ["j1", "j1"]
    bad(rules.dead_letters_have_incidents, tale, "one has several")


def test_nothing_is_kept_for_whoever_is_gone():
    def killed():
        return Tale().tell(1, "kill", DRIVER, of=PIDS["a"]).tell(1.1, "exit", DRIVER, of=PIDS["a"], code=-9, node="a")

    bad(rules.nothing_goes_to_the_dead, killed().fetch(5, "a"), "was kept for a, which was gone for 3.90 s")
    good(rules.nothing_goes_to_the_dead, killed().fetch(1.5, "a"))
    good(rules.nothing_goes_to_the_dead, killed().fetch(5, "b"))
    bad(rules.nothing_goes_to_the_dead, Tale().tell(2, "over", 11, worker="a").fetch(5, "a"), "gone for 3.00 s")
    good(rules.nothing_goes_to_the_dead, Tale().tell(2, "over", 11, worker="a.1").fetch(5, "a.2"))
    bad(rules.nothing_goes_to_the_dead, killed().fetch(5, "a.2"), "was kept for a.2, which was gone for 3.90 s")
    given_back = killed().fetch(5, "a").tell(5.1, "yielding", GATEWAY, key=1, deadline=10)
    good(rules.nothing_goes_to_the_dead, given_back)
    good(rules.nothing_goes_to_the_dead, killed().fetch(5, "a").tell(5.5, "kill", DRIVER, of=GATEWAY))


def test_all_end_as_they_should():
    def exit(code):
        return Tale().tell(1, "exit", DRIVER, of=5, code=code, node="grpc1")

    good(rules.nothing_left_behind, exit(0))
    bad(rules.nothing_left_behind, exit(1), "grpc1 ended with 1")
    good(rules.nothing_left_behind, exit(1).tell(0.5, "server-down", DRIVER).tell(0.7, "server-up", DRIVER))
    bad(rules.nothing_left_behind, Tale().tell(9, "restless", DRIVER, seconds=60), "there was none after 60 s")
    left = Tale()
    left.state["locks"] = [["i", "external:j1"]]
    bad(rules.nothing_left_behind, left, "locks")


def test_what_needs_rest_is_asked_only_then():
    tale = Tale()
    assert rules.judge(History(tale.lines, tale.state)) == []
    tale.tell(9, "rest", DRIVER)
    assert {problem.rule for problem in rules.judge(History(tale.lines, tale.state))} == {"nothing lost"}
