"""Which tenants' rows the admin shows; see :mod:`jobexec.tenancy`."""

from jobexec.tenancy import COLUMN, is_restricted, of_tenants, tenants_of

__all__ = ["COLUMN", "is_restricted", "of_tenants", "tenants_of"]
