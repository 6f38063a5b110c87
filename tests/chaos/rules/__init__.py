"""What must hold: the rules, by what they are about, and the judge, who asks all of them.

A rule yields a problem for whatever breaks it. It may rely only on what cannot be told wrong by a process that is
killed or paused between two lines: see `docs/explanation/chaos.md`.
"""

from collections.abc import Callable, Iterator

from tests.chaos.history import History, Problem

from .jobs import (
    effects_exactly_once,
    kinds_end_as_they_must,
    nobody_pays_for_another,
    nothing_is_left,
    nothing_lost,
    retries_add_up,
)
from .keys import calls_fail_only_in_conflicts, duplicates_have_a_holder, no_key_has_two_jobs
from .messages import ids_are_known_while_kept, messages_reach_who_waits
from .operators import (
    batches_end,
    batches_of_jobs_end,
    children_are_counted,
    each_dead_letter_has_its_incident,
    meters_count_what_happened,
    no_record_waits,
    records_are_written_once,
    tenants_keep_to_their_limits,
)
from .processes import (
    cancellations_hold,
    flows_are_undone_backwards,
    instances_come_to_their_end,
    instances_end_as_their_models_say,
    messages_are_delivered_once,
    rows_fit_together,
    starts_are_kept,
    steps_have_their_effects_once,
    what_is_done_outside_was_run,
)
from .resources import breakers_let_none_begin, only_trial_calls_run, rates_are_kept, resources_bear_what_runs
from .runs import (
    judges_were_well_themselves,
    leases_are_true,
    never_on_two_nodes,
    no_overlap_in_an_instance,
    outcomes_are_fenced,
    repeats_are_explained,
    siblings_begin_in_their_order,
    siblings_wait_for_the_commit,
    suspects_run_alone,
)
from .schedules import each_time_has_one_job, no_time_is_missing, runs_know_their_time
from .tasks import (
    each_attempt_is_noted_once,
    results_say_what_happened,
    sightings_are_true,
    values_are_those_of_the_last_run,
)

Rule = Callable[[History], Iterator[Problem]]

#: What holds at any time.
ALWAYS: tuple[Rule, ...] = (
    effects_exactly_once,
    no_overlap_in_an_instance,
    never_on_two_nodes,
    outcomes_are_fenced,
    repeats_are_explained,
    leases_are_true,
    judges_were_well_themselves,
    siblings_wait_for_the_commit,
    siblings_begin_in_their_order,
    nobody_pays_for_another,
    suspects_run_alone,
    retries_add_up,
    kinds_end_as_they_must,
    records_are_written_once,
    each_dead_letter_has_its_incident,
    children_are_counted,
    tenants_keep_to_their_limits,
    resources_bear_what_runs,
    rates_are_kept,
    breakers_let_none_begin,
    only_trial_calls_run,
    messages_reach_who_waits,
    ids_are_known_while_kept,
    each_time_has_one_job,
    runs_know_their_time,
    no_key_has_two_jobs,
    duplicates_have_a_holder,
    calls_fail_only_in_conflicts,
    results_say_what_happened,
    values_are_those_of_the_last_run,
    each_attempt_is_noted_once,
    sightings_are_true,
    starts_are_kept,
    instances_end_as_their_models_say,
    steps_have_their_effects_once,
    what_is_done_outside_was_run,
    flows_are_undone_backwards,
    messages_are_delivered_once,
    cancellations_hold,
    rows_fit_together,
)
#: What holds when the cluster has come to rest and its nodes have stopped in order.
AT_REST: tuple[Rule, ...] = (
    nothing_lost,
    nothing_is_left,
    no_record_waits,
    batches_end,
    batches_of_jobs_end,
    meters_count_what_happened,
    no_time_is_missing,
    instances_come_to_their_end,
)


def judge(history: History) -> list[Problem]:
    """All problems; a run that was broken off before it came to rest is judged by what always holds."""
    rules = (*AT_REST, *ALWAYS) if history.of("rest") else ALWAYS
    return [problem for rule in rules for problem in rule(history)]
