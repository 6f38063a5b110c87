from django.apps import AppConfig


class BookingsConfig(AppConfig):
    name = "demo_project.bookings"
    default_auto_field = "django.db.models.BigAutoField"
