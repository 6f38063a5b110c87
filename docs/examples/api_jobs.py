"""The jobs of "Enqueue from an API", and their state for the user who has asked for them."""

from django.core import signing

from demo_project.bookings.models import Booking
from jobexec import ResultDoesNotExist, job


@job(keep_result="P1D")
def confirm(booking_id: int) -> dict[str, int]:
    booking = Booking.objects.get(pk=booking_id)
    if not booking.nights:
        raise ValueError("This is not a trip.")
    return {"booking": booking.pk, "nights": booking.nights}


def ticket(user, row):
    return signing.dumps([user.pk, str(row.pk)], salt="confirm")


def state(user, ticket):
    """What the user may know; None for a ticket that is not the user's, or whose result is no longer kept."""
    try:
        owner, id = signing.loads(ticket, salt="confirm")
        result = confirm.get_result(id)
    except (signing.BadSignature, ResultDoesNotExist):
        return None
    if owner != user.pk:
        return None
    value = result.return_value if result.status == "SUCCESSFUL" else None
    return {"status": result.status, "attempts": result.attempts, "result": value}
