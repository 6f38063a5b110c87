"""The state of a resource beyond the setting RESOURCES: its rate, its breaker, and operators' overrides."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from .fields import NameField


class BreakerState(models.TextChoices):
    """Whether calls are let through (Ratchet, Resilience4j: the states of a circuit breaker)."""

    CLOSED = "closed", pgettext_lazy("circuit breaker", "closed")
    OPEN = "open", pgettext_lazy("circuit breaker", "open")
    HALF_OPEN = "half open", pgettext_lazy("circuit breaker", "half open")


class Resource(models.Model):
    """A resource that jobs have used, by its concrete name, or an entry of RESOURCES that operators have changed.

    Every transaction that takes permits of a resource locks its row first. The number of permits in use is stored
    nowhere: they are the rows of Job and ExternalWorkerJob with this ``resource``, so none can be lost or leak.

    ``limit`` and ``rate`` are what an operator has set; NULL and '' mean the setting, and a limit of 0 is no limit at
    all. ``hold`` is the state in which an operator holds the breaker, until ``hold_until`` if that is set.
    """

    name = NameField(max_length=255, primary_key=True)
    limit = models.PositiveIntegerField(null=True, blank=True)
    rate = models.CharField(max_length=64, blank=True, default="")
    #: The theoretical arrival time of the next job (GCRA): the rate allows it from then on, less the burst.
    next_permit_time = models.DateTimeField(null=True, blank=True)
    #: How many jobs have been promoted.
    promoted = models.PositiveBigIntegerField(default=0)
    breaker_state = models.CharField(max_length=16, choices=BreakerState, default=BreakerState.CLOSED)
    #: When the breaker last changed its state.
    breaker_time = models.DateTimeField(null=True, blank=True)
    #: When an open breaker lets trial calls through.
    trial_time = models.DateTimeField(null=True, blank=True)
    #: How many trial calls have succeeded since then.
    trials = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=4000, blank=True, default="")
    hold = models.CharField(max_length=16, choices=BreakerState, blank=True, default="")
    hold_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("resource")
        verbose_name_plural = _("resources")
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return self.name
