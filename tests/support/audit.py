"""Access to the audit log."""

from jobexec.models import AuditLog


def audit_log(using: str = "default") -> list[AuditLog]:
    """Return all entries, the oldest first."""
    return list(AuditLog.objects.using(using).order_by("pk"))
