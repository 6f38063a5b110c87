"""What the audit log says."""

from jobexec.models import AuditLog


def audit_log(using: str = "default") -> list[AuditLog]:
    """All of it, the oldest first."""
    return list(AuditLog.objects.using(using).order_by("pk"))
