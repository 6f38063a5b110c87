"""The time limit of a tier: a run of a whole tier that takes more than 1.5 times as long on an idle machine fails."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.suite import tiers

SLOWEST = 25

#: The number of cores that other processes may use on a machine that counts as idle.
_IDLE = 0.3


def is_whole(config: pytest.Config) -> bool:
    """Whether the run covers all tests of its tier and not a selection."""
    from_settings = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    chosen = config.option.keyword or config.option.markexpr or config.option.collectonly
    return from_settings and not chosen and not tiers.NAMED


class Budget:
    """A plugin for the reporting process."""

    def __init__(self, config: pytest.Config) -> None:
        self._tier = tiers.current()
        self._left = 0
        self._seconds = 0.0
        self._too_long = ""
        if config.option.durations is None:
            config.option.durations = SLOWEST

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._busy = _busy_cores()
        self._began = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        self._left = getattr(node, "workeroutput", {}).get("left", self._left)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._left = len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._seconds = time.monotonic() - self._began
        if self._seconds <= 90 * self._tier.minutes:
            return
        busy = max(self._busy, _busy_cores())
        self._too_long = f"More than half over its {self._tier.minutes} minutes"
        if busy <= _IDLE:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        else:
            self._too_long += f"; others used {busy:.1f} cores meanwhile"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        minutes, seconds = divmod(round(self._seconds), 60)
        later = [tier.command for tier in tiers.TIERS.values() if len(tier.leaves) < len(self._tier.leaves)]
        counted = self._left and not self._tier.only  # a tier limited to folders does not read the other tests
        left = f", {self._left} tests left to {' and '.join(later)}" if counted else ""
        terminalreporter.section(f"tier {self._tier.name}: {minutes} min {seconds} s{left}", sep="-")
        if self._too_long:
            terminalreporter.line(self._too_long, red=True)


def _busy_cores() -> float:
    """Return how many cores are busy while this process sleeps; 0 where that is unknown."""
    source = Path("/proc/stat")
    if not source.exists():
        return 0.0

    def ticks() -> tuple[int, int]:
        numbers = [int(number) for number in source.read_text().split("\n", 1)[0].split()[1:9]]
        return sum(numbers), sum(numbers) - numbers[3] - numbers[4]

    all_before, busy_before = ticks()
    time.sleep(0.4)
    all_after, busy_after = ticks()
    cores = sum(line.startswith("cpu") for line in source.read_text().splitlines()) - 1
    return cores * (busy_after - busy_before) / max(1, all_after - all_before)
