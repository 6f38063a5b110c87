from django.apps import AppConfig


class Customers(AppConfig):
    name = "tests.process.schemas.customers"
    label = "customers"

    def ready(self):
        from docs.examples import schemas  # noqa: F401  # it connects its receiver
