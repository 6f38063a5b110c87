"""A booking and its tickets."""

from __future__ import annotations

from django.db import models
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Cast, Concat
from django.urls import reverse

from jobexec.models import DeadLetterJob


class BookingQuerySet(models.QuerySet):
    def with_attention(self) -> BookingQuerySet:
        """Adds `attention`: a job of this booking waits for a person."""
        process = Concat(Value("booking-"), Cast(OuterRef("pk"), models.CharField()))
        return self.annotate(attention=Exists(DeadLetterJob.objects.filter(process_instance_id=process)))


class Booking(models.Model):
    """A visitor's trip: hotel, flight and concert in one city."""

    class State(models.TextChoices):
        REQUESTED = "requested"
        CONFIRMED = "confirmed"

    visitor = models.CharField(max_length=100)
    email = models.EmailField("e-mail")
    city = models.CharField(max_length=60)
    arrival = models.DateField()
    departure = models.DateField()
    state = models.CharField(max_length=16, choices=State, default=State.REQUESTED, editable=False)
    requested_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True, editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)

    objects = BookingQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                name="departure_after_arrival",
                condition=models.Q(departure__gt=models.F("arrival")),
                violation_error_message="The departure must be after the arrival.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.visitor}, {self.city}"

    def get_absolute_url(self) -> str:
        return reverse("bookings:detail", args=[self.pk])

    @property
    def process_instance_id(self) -> str:
        """What all jobs of this booking have in common: no two of them run at the same time."""
        return f"booking-{self.pk}"

    @property
    def nights(self) -> int:
        return (self.departure - self.arrival).days


class Ticket(models.Model):
    """One of the three things that a confirmed booking consists of."""

    class Kind(models.TextChoices):
        HOTEL = "hotel"
        FLIGHT = "flight"
        CONCERT = "concert"

    booking = models.ForeignKey(Booking, on_delete=models.CASCADE, related_name="tickets")
    kind = models.CharField(max_length=16, choices=Kind)
    reference = models.CharField(max_length=40)
    booked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        # Jobs run at least once. Should one run twice, this is what keeps a visitor from paying for two hotels.
        constraints = [models.UniqueConstraint(fields=["booking", "kind"], name="one_ticket_of_a_kind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"
