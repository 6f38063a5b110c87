"""The site. Pages refresh a part of themselves: asked with `?live`, a view renders only that part."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from demo_project.flaky_service import CITIES

from . import services, status
from .forms import BookingForm
from .letters import receipt_path, voucher_path
from .models import Booking
from .newsletter import latest_newsletters, send_newsletter

PER_PAGE = 15
SHOWN = {
    "attention": Q(attention=True),
    "confirmed": Q(state=Booking.State.CONFIRMED),
    "requested": status.REQUESTED,
}


def board(request: HttpRequest) -> HttpResponse:
    """All bookings, the newest first, with what the executor is about."""
    shown = request.GET.get("show", "")
    page = Paginator(_filtered(shown), PER_PAGE).get_page(request.GET.get("page"))
    return _live(request, "board", {"page": page, "show": shown, "now": status.snapshot()})


def new(request: HttpRequest) -> HttpResponse:
    """Book a trip. The answer does not wait for the tickets: the jobs get them."""
    form = BookingForm(request.POST or None, label_suffix="")
    if request.method == "POST" and form.is_valid():
        return redirect(services.book(form.instance))
    return render(request, "bookings/new.html", {"form": form, "cities": sorted(CITIES)})


def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One booking: its tickets, its jobs, and every attempt so far."""
    booking = get_object_or_404(Booking.objects.with_attention(), pk=pk)
    jobs, log = status.jobs_of(booking), status.log_of(booking)
    context = {"booking": booking, "tickets": status.tickets_of(booking), "jobs": jobs, "log": log}
    paid = receipt_path(booking).exists()
    return _live(request, "detail", context | {"has_voucher": voucher_path(booking).exists(), "paid": paid})


@require_POST
def pay(request: HttpRequest, pk: int) -> HttpResponse:
    """What a payment provider's webhook would do: publish the message that the job of the booking waits for."""
    booking = get_object_or_404(Booking, pk=pk)
    services.pay(booking, "card")
    return redirect(booking)


def newsletter(request: HttpRequest) -> HttpResponse:
    """The newsletters, with a progress bar each; a POST sends another one."""
    if request.method == "POST":
        send_newsletter()
        return redirect("bookings:newsletter")
    return _live(request, "newsletter", {"newsletters": latest_newsletters()})


def voucher(request: HttpRequest, pk: int) -> FileResponse:
    path = voucher_path(get_object_or_404(Booking, pk=pk))
    if not path.exists():
        raise Http404("This booking has no voucher yet.")
    return FileResponse(path.open("rb"), content_type="text/html; charset=utf-8")


def _filtered(shown: str) -> QuerySet[Booking]:
    return Booking.objects.with_attention().filter(SHOWN.get(shown, Q()))


def _live(request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
    part = f"bookings/_{name}.html"
    return render(request, part if "live" in request.GET else f"bookings/{name}.html", {**context, "part": part})
