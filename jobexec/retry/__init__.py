"""Retry plans: how often a job is tried, and how long it waits in between. Pure values, no database.

==========================  ============================================================
text                        meaning
==========================  ============================================================
``R5/PT5M``                 5 attempts, 5 minutes apart
``R/PT5M``                  attempts without limit (2147483647 of them), 5 minutes apart
``PT5M``                    2 attempts: one retry after 5 minutes
``PT1M,PT10M,PT1H``         4 attempts (n intervals, n + 1 attempts); the last interval repeats if an
                            operator raises the retries later
``R12/PT10S*2..PT1H~0.1``   12 attempts, exponential: first 10 s, doubled each time, at most 1 hour,
                            shortened at random by up to a tenth; ``..PT1H`` and ``~0.1``
                            may be left out (P1D and 0.1)
==========================  ============================================================

The forms without ``*`` are Camunda's ``failedJobRetryTimeCycle``, with two differences. ``R0/…`` is refused: Camunda
silently runs such a job once, but "0 attempts" cannot be what its author meant. And an invalid text is an error at
once: Camunda logs it and takes its default, which is noticed only when the first job fails.
"""

from __future__ import annotations

from jobexec.retry.intervals import LONGEST
from jobexec.retry.plan import RetryFunction, RetryPlan, default_plan
from jobexec.retry.text import MAX_TEXT_LENGTH, UNLIMITED

__all__ = ["LONGEST", "MAX_TEXT_LENGTH", "UNLIMITED", "RetryFunction", "RetryPlan", "default_plan"]
