"""The endpoints of "Enqueue from an API" for Django REST framework."""

from django.db import transaction
from django.urls import path, reverse
from rest_framework.decorators import api_view, permission_classes
from rest_framework.exceptions import NotFound
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.serializers import ModelSerializer

from demo_project.bookings.models import Booking

from .api_jobs import confirm, state, ticket  # in a project: from .jobs


class BookingSerializer(ModelSerializer):
    class Meta:
        model = Booking
        fields = ["visitor", "email", "city", "arrival", "departure"]


@api_view(["POST"])
@permission_classes([IsAuthenticated])
def book(request):
    serializer = BookingSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    with transaction.atomic():
        booking = serializer.save()
        row = confirm.enqueue(booking.pk)
    url = reverse("confirmation", args=[ticket(request.user, row)])
    return Response({"state": url}, status=202, headers={"Location": url})


@api_view(["GET"])
@permission_classes([IsAuthenticated])
def confirmation(request, ticket):
    found = state(request.user, ticket)
    if found is None:
        raise NotFound
    return Response(found, headers={"Retry-After": "2"} if found["status"] in ("READY", "RUNNING") else {})


urlpatterns = [
    path("bookings/", book),
    path("bookings/confirmations/<ticket>/", confirmation, name="confirmation"),
]
