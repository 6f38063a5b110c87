"""A newsletter to all visitors: each letter is a job, and all of them are one batch."""

import jobexec
from jobexec.models import Batch

from .jobs import report_newsletter, write_to
from .models import Booking

NAME = "newsletter"


def send_newsletter() -> jobexec.JobBatch:
    """Write to the visitors of all bookings. The bookings are read page by page, however many there are."""
    call = report_newsletter.s()
    with jobexec.batch(name=NAME, on_success=call, on_failure=call) as batch:
        batch.add_many(write_to.s(pk) for pk in Booking.objects.values_list("pk", flat=True).iterator())
    return batch


def latest_newsletters(count: int = 5) -> list[dict[str, object]]:
    """The last newsletters with their progress, the newest first."""
    rows = Batch.objects.filter(name=NAME).order_by("-create_time")[:count]
    return [{"batch": row, "progress": jobexec.get_batch(row.pk).progress()} for row in rows]
