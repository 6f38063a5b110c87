"""Settings for the tests: every installed entrance of jobexec, an alias per database that can be reached."""

from demo_project.settings import (  # noqa: F401
    FLIGHT_SERVICE,
    FLIGHT_SERVICE_TIMEOUT,
    MAIL_SERVER_TAKES,
    PAYMENT_REMINDER_DELAY,
    TRAVEL_SERVICE_TAKES,
)
from tests.support.suite import databases

SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"

# "default" is SQLite; "postgresql" and "mariadb" are there when they can be reached.
DATABASES = databases.settings()

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rangefilter",
    "jobexec",
    "jobexec.processes",
    "demo_project.benchmarks",
    "demo_project.bookings",
    "demo_project.workflows",
    "tests.support",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Making users must not cost the tests their time.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# What a test gave to its child process.
globals().update(databases.overrides())

# The demo's reminders stand in a category of their own.
JOBEXEC = {"CATEGORIES": ["default", "mail"], **globals().get("JOBEXEC", {})}

# Files of the demo are deployed by the tests that need them, and its resources are in the settings that tests replace.
SILENCED_SYSTEM_CHECKS = ["jobexec.W020", "jobexec.W023"]
