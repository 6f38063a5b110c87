from django.apps import AppConfig


class Outside(AppConfig):
    name = "tests.chaos.outside"
    label = "chaos_outside"

    def ready(self) -> None:
        from . import instrument

        instrument.install()
