from django_tenants.models import DomainMixin, TenantMixin


class Customer(TenantMixin):  # type: ignore[misc]
    """A tenant; its schema is created and migrated when it is saved."""


class Domain(DomainMixin):  # type: ignore[misc]
    """The host name of a tenant."""
