"""What the setting ADMIN_TENANTS names in the tests."""

from typing import Any

calls: list[Any] = []


def of_user(request: Any) -> frozenset[str] | None:
    """The words of the user's last name; all tenants for a user without one. "-" stands for jobs without a tenant."""
    calls.append(request)
    words = request.user.last_name.split() if request.user.is_authenticated else []
    return frozenset("" if word == "-" else word for word in words) or None


def wrong(request: Any) -> Any:
    return "acme"


def numbers(request: Any) -> Any:
    return [1, 2]
