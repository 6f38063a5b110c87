"""How long to wait after a round of acquisition, and how many jobs to ask for: pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobexec.conf import get_settings
from jobexec.executor.waiting import AdaptivePolling, Backoff, Ladder, Round, Waiting, strategy_of

EMPTY, FULL = Round(10), Round(10, found=10, batches=10)
FAILED = Round(10, found=10, batches=9, lock_failures=1)
CAMUNDA = Backoff(wait_time=5, max_wait=60, backoff_time=0.03, max_backoff=0.15, decrease_threshold=3)


def waits(strategy, rounds, state=None):
    """The waits after these rounds."""
    state, result = strategy.start() if state is None else state, []
    for each in rounds:
        state, wait = strategy.step(state, each)
        result.append(wait)
    return result


def after(strategy, rounds):
    """The state after these rounds."""
    state = strategy.start()
    for each in rounds:
        state, _ = strategy.step(state, each)
    return state


class TestLadder:
    def test_it_grows_to_its_top(self):
        assert waits(Ladder(), [EMPTY] * 9) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]

    def test_it_never_overflows(self):
        assert waits(Ladder(factor=10.0), [EMPTY] * 2000)[-1] == 5.0

    def test_a_full_page_waits_for_nothing_and_a_part_of_one_for_the_shortest_time(self):
        assert waits(Ladder(), [*[EMPTY] * 5, FULL, Round(10, found=3, batches=3), EMPTY])[-3:] == [0.0, 0.1, 0.1]

    def test_a_wake_up_starts_it_anew(self):
        assert waits(Ladder(), [*[EMPTY] * 5, Round(10, woken=True)])[-1] == 0.1

    def test_while_listening_the_top_is_higher(self):
        listening = [Round(10, listening=True)] * 20
        assert waits(Ladder(), [*listening, EMPTY])[-2:] == [30.0, 5.0]

    def test_lock_failures_back_off_and_one_clean_round_ends_it(self):
        result = waits(Ladder(), [*[FAILED] * 7, FULL, FAILED])
        assert result == [0.03, 0.06, 0.12, 0.24, 0.48, 0.5, 0.5, 0.0, 0.03]

    @pytest.mark.parametrize("random", [0.0, 0.5, 1.0])
    def test_nodes_that_collided_wait_differently_long(self, random):
        collided = Round(10, found=10, lock_failures=1, jitter=random)
        assert waits(Ladder(), [collided]) == [pytest.approx(0.03 * (1 + random / 2))]

    def test_without_room_it_waits_to_be_woken(self):
        assert waits(Ladder(), [Round(0), Round(0, listening=True)]) == [5.0, 30.0]
        assert Ladder().page(Ladder().start(), 100) == 100


class TestBackoff:
    """BackoffJobAcquisitionStrategyTest, JobAcquisitionBackoffTest and JobAcquisitionBackoffIdleTest of Camunda."""

    def test_the_defaults_are_camundas(self):
        assert waits(Backoff(), [EMPTY] * 7) == [5, 10, 20, 40, 60, 60, 60]
        assert waits(Backoff(), [FAILED] * 3) == [0.0, 0.0, 0.0], "switched off"

    def test_a_part_of_a_page_is_idle_counted_in_batches(self):
        siblings = Round(10, found=10, batches=3)
        assert waits(CAMUNDA, [siblings, siblings, FULL, siblings]) == [5, 10, 0, 5]

    def test_lock_failures_count_as_work(self):
        assert waits(CAMUNDA, [EMPTY, Round(10, found=10, batches=4, lock_failures=6)]) == [5, 0.03]

    def test_waits_and_pages_of_the_cluster_article(self):
        state, seen = CAMUNDA.start(), []
        for _ in range(6):
            state, wait = CAMUNDA.step(state, FAILED)
            seen.append((wait, CAMUNDA.page(state, 3)))
        assert seen == [(0.03, 6), (0.06, 12), (0.12, 24), (0.15, 48), (0.15, 48), (0.15, 48)]

    def test_jitter_only_right_after_a_failure(self):
        collided = Round(10, found=10, batches=9, lock_failures=1, jitter=1.0)
        clean = Round(10, found=10, batches=10, jitter=1.0)
        assert waits(CAMUNDA, [collided, clean]) == [pytest.approx(0.045), 0.03]

    def test_it_decreases_by_a_level_after_so_many_clean_rounds(self):
        rounds = [FAILED, FAILED, FULL, FULL, FULL, FULL, FULL, FULL, FULL]
        assert waits(CAMUNDA, rounds) == [0.03, 0.06, 0.06, 0.06, 0.03, 0.03, 0.03, 0.0, 0.0]

    def test_a_failure_starts_the_count_anew(self):
        assert waits(CAMUNDA, [FAILED, FULL, FULL, FAILED, FULL, FULL])[-1] == 0.06

    def test_idle_goes_before_back_off_and_both_before_saturation(self):
        assert waits(CAMUNDA, [FAILED, EMPTY]) == [0.03, 5]
        assert waits(CAMUNDA, [FAILED, Round(0)]) == [0.03, 0.03]
        assert waits(CAMUNDA, [Round(0)]) == [0.1]

    def test_a_wake_up_means_no_wait_and_then_the_foot_of_the_ladder(self):
        assert waits(CAMUNDA, [EMPTY, EMPTY, Round(10, woken=True), EMPTY]) == [5, 10, 0, 5]

    def test_the_wait_is_a_period(self):
        assert waits(CAMUNDA, [Round(10, elapsed=1.5), Round(10, elapsed=11)]) == [3.5, 0.0]

    def test_a_factor_of_one_stays_at_the_first_wait(self):
        steady = Backoff(wait_time=1, max_wait=60, factor=1, backoff_time=0.5, max_backoff=2)
        assert waits(steady, [EMPTY] * 3 + [FAILED] * 3) == [1, 1, 1, 0.5, 0.5, 0.5]

    @given(
        st.lists(
            st.builds(
                Round,
                requested=st.integers(0, 5),
                found=st.integers(0, 5),
                batches=st.integers(0, 5),
                lock_failures=st.integers(0, 3),
                woken=st.booleans(),
                jitter=st.floats(0, 1),
            ),
            max_size=60,
        ),
        st.floats(1, 10),
    )
    def test_it_stays_within_its_bounds(self, rounds, factor):
        strategy = Backoff(factor=factor, backoff_time=0.03, max_backoff=0.15, decrease_threshold=2)
        state = strategy.start()
        for each in rounds:
            state, wait = strategy.step(state, each)
            assert 0 <= wait <= 60
            assert 3 <= strategy.page(state, 3) <= 3 * factor ** (state.backoff + 1)
            assert wait <= 0.15 * 1.5 or state.idle


class TestAdaptivePolling:
    polling = AdaptivePolling()
    some = Round(10, found=5, batches=5, load=1 / 3)
    empty, full = Round(10, load=1 / 3), Round(10, found=10, load=1 / 3)  # a load factor of 1

    def test_full_pages_are_followed_up_sooner_and_sooner(self):
        assert waits(self.polling, [self.full] * 4) == [1.0, 1.0, 0.5, 0.5]
        assert waits(self.polling, [self.full] * 3 + [self.some, self.full])[-1] == 1.0

    def test_the_rolling_window(self):
        nearly = Round(10, found=9, load=1 / 3)
        hardly = Round(10, found=1, load=1 / 3)
        assert waits(self.polling, [self.some, nearly, nearly]) == [2.0, 2.0, 2.0]
        assert waits(self.polling, [nearly] * 3) == [1.0] * 3
        assert waits(self.polling, [hardly] * 3) == [4.0] * 3
        assert waits(self.polling, [nearly] * 50 + [hardly] * 10)[-1] == 4.0, "only the last ten count"

    def test_empty_pages_wait_longer_and_longer_up_to_deep_idle(self):
        assert waits(self.polling, [self.empty] * 9) == [4.0, 8.0, *[10.0] * 5, 30.0, 30.0]
        assert waits(self.polling, [*[self.empty] * 20, *[self.some] * 10, self.empty])[-2:] == [2.0, 4.0]

    def test_after_half_a_minute_it_grows_by_three(self):
        slow = AdaptivePolling(min_delay=1, max_delay=1000, deep_idle_threshold=10_000)
        assert waits(slow, [self.empty] * 5) == [2.0, 4.0, 8.0, 16.0, 243.0]

    def test_a_wake_up_ends_deep_idle_and_starts_a_burst(self):
        idle = after(self.polling, [self.empty] * 20)
        woken = Round(10, woken=True, load=1 / 3)
        assert waits(self.polling, [woken, self.empty, self.empty, self.empty], idle) == [0.5, 0.5, 10.0, 10.0]

    def test_a_burst_goes_on_while_there_is_work(self):
        woken = Round(10, found=1, woken=True, load=1 / 3)
        assert waits(self.polling, [woken, self.some, self.full, self.empty, self.some]) == [0.5] * 5

    def test_busy_threads_shorten_the_wait_and_idle_ones_double_it(self):
        assert waits(self.polling, [Round(10, found=5, load=1.0)]) == [1.0]
        assert waits(self.polling, [Round(10, found=5, load=0.0)]) == [4.0]

    def test_it_never_polls_oftener_than_its_floor(self):
        hasty = AdaptivePolling(min_delay=0.01, burst_delay=0.01)
        assert waits(hasty, [Round(10, found=5, load=1.0)]) == [0.1]
        assert waits(hasty, [Round(10, found=10, load=1.0)]) == [0.05]

    def test_without_room_it_waits_to_be_woken(self):
        assert waits(self.polling, [Round(0)]) == [10.0]
        assert self.polling.page(self.polling.start(), 50) == 50


class TestWaiting:
    def test_a_wake_up_counts_for_one_round(self):
        waiting = Waiting(CAMUNDA, jitter=lambda: 0.0)
        assert waiting.after(EMPTY) == 5
        waiting.wake()
        assert [waiting.after(EMPTY), waiting.after(EMPTY)] == [0, 5]

    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [(CAMUNDA, 0), (Ladder(), 0.2), (AdaptivePolling(), 10.0)],
        ids=["backoff", "ladder", "polling"],
    )
    def test_the_end_of_a_batch_is_a_hint_for_camundas_strategy(self, strategy, expected):
        waiting = Waiting(strategy, jitter=lambda: 0.0)
        waiting.after(EMPTY)
        waiting.batch_ended()
        assert waiting.after(EMPTY) == expected

    def test_a_trickle_of_jobs_is_no_idleness(self):
        waiting, waits = Waiting(CAMUNDA), []
        for _ in range(6):
            waits.append(waiting.after(Round(10, found=1, batches=1)))
            waiting.batch_ended()
        assert waits == [5, 0, 0, 0, 0, 0]

    def test_it_asks_for_what_the_strategy_says(self):
        waiting = Waiting(CAMUNDA, jitter=lambda: 1.0)
        assert waiting.page(3) == 3
        assert waiting.after(FAILED) == pytest.approx(0.045)
        assert waiting.page(3) == 6


class TestChoice:
    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ({}, Ladder),
            ({"ACQUISITION": "skip_locked"}, Ladder),
            ({"ACQUISITION": "global_lock"}, Ladder),
            ({"ACQUISITION": "optimistic"}, Backoff),
            ({"ACQUISITION": "optimistic", "WAITING": "ladder"}, Ladder),
            ({"WAITING": "backoff"}, Backoff),
            ({"WAITING": "polling"}, AdaptivePolling),
        ],
    )
    def test_by_settings(self, settings, keys, expected):
        settings.JOBEXEC = keys
        assert isinstance(strategy_of(get_settings().engine("default")), expected)

    def test_with_their_values(self, settings):
        settings.JOBEXEC = {
            "WAITING": "backoff",
            "WAIT_TIME": 5,
            "MAX_WAIT": 60,
            "MAX_WAIT_WHEN_LISTENING": 60,
            "BACKOFF_DECREASE_THRESHOLD": 3,
        }
        engine = get_settings().engine("default")
        assert strategy_of(engine) == Backoff(backoff_time=0.03, max_backoff=0.5, decrease_threshold=3)
        settings.JOBEXEC = {"WAITING": "polling", "WAIT_TIME": 2, "MAX_WAIT": 10}
        assert strategy_of(get_settings().engine("default")) == AdaptivePolling()
