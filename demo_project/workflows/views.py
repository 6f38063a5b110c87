"""The page of the processes. What it starts and drives is in services.py."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from jobexec.processes.models import UserTask

from . import services, status

START = {
    "travel": lambda: services.travel("Rome"),
    "order": lambda: services.order("tour T-shirt", 30),
    "order-expensive": lambda: services.order("signed guitar", 2500),
    "order-sold-out": lambda: services.order("front-row seat", 90),
    "approval": lambda: services.ask_for_money("Ada Byron", 250, "NL91ABNA0417164300"),
    "approval-incident": lambda: services.ask_for_money("Ada Byron", 40, "unknown"),
    "offer": lambda: services.make_offer("Vienna", 3),
}


def processes(request: HttpRequest) -> HttpResponse:
    """The latest instances of each process; asked with `?live`, only the part that changes."""
    part = "workflows/_processes.html"
    context = {"side_by_side": services.is_side_by_side(), "part": part} | {
        key: status.latest(key) for key in status.KEYS
    }
    return render(request, part if "live" in request.GET else "workflows/processes.html", context)


@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """One button of the page: its name is the verb, its value says of what."""
    for verb in request.POST:
        value = request.POST[verb]
        if verb == "start" and value in START:
            START[value]()
        elif verb == "switch":
            services.switch_side_by_side()
        elif verb == "pay":
            services.receive_payment(value)
        elif verb == "accept":
            services.accept_offer(value, "a visitor of the page")
        elif verb in ("approve", "reject"):
            services.answer(get_object_or_404(UserTask, pk=value), verb == "approve", "manager")
    return redirect("workflows:processes")
