"""The endpoints of "Enqueue from an API" for Django Ninja."""

from datetime import date

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from ninja import NinjaAPI, Schema, Status
from ninja.security import django_auth

from demo_project.bookings.models import Booking

from .api_jobs import confirm, state, ticket  # in a project: from .jobs

api = NinjaAPI(auth=django_auth)


class BookingIn(Schema):
    visitor: str
    email: str
    city: str
    arrival: date
    departure: date


class Accepted(Schema):
    state: str


class State(Schema):
    status: str
    attempts: int
    result: dict[str, int] | None


@api.post("bookings/", response={202: Accepted})
def book(request: HttpRequest, response: HttpResponse, data: BookingIn):
    with transaction.atomic():
        booking = Booking.objects.create(**data.dict())
        row = confirm.enqueue(booking.pk)
    response["Location"] = reverse("api-1.0.0:confirmation", args=[ticket(request.user, row)])
    return Status(202, {"state": response["Location"]})


@api.get("bookings/confirmations/{ticket}/", response=State)
def confirmation(request: HttpRequest, response: HttpResponse, ticket: str):
    found = state(request.user, ticket)
    if found is None:
        raise Http404
    if found["status"] in ("READY", "RUNNING"):
        response["Retry-After"] = "2"
    return found


urlpatterns = [path("", api.urls)]
