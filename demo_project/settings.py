"""Settings of the demo.

Where its data are comes from the environment, so that `manage.py demo` can give all its children the same place:

DEMO_DATABASE   postgresql://user@host:port/name, mysql://user@host:port/name, or the path of a SQLite file
DEMO_FILES      the folder of vouchers and reminders
DEMO_FLIGHTS    address of the flight service
DEMO_DEBUG      0 switches DEBUG off: it makes Django keep every query, which an executor has no use for
"""

import os
from datetime import timedelta
from pathlib import Path

from demo_project.databases import database

BASE_DIR = Path(__file__).resolve().parent

SECRET_KEY = os.environ.get("DEMO_SECRET_KEY", "not a secret: the demo listens on this machine only")
DEBUG = os.environ.get("DEMO_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "demo_project.urls"
WSGI_APPLICATION = "demo_project.wsgi.application"

DATABASES = {"default": database(os.environ.get("DEMO_DATABASE", str(BASE_DIR / "demo.sqlite3")))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

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
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
MEDIA_ROOT = Path(os.environ.get("DEMO_FILES", BASE_DIR / "files"))
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "bookings:board"

FLIGHT_SERVICE = os.environ.get("DEMO_FLIGHTS", "http://127.0.0.1:8100")
FLIGHT_SERVICE_TIMEOUT = 1.0  # seconds
PAYMENT_REMINDER_DELAY = timedelta(days=3)
MAIL_SERVER_TAKES = 0.05  # seconds for each letter
TRAVEL_SERVICE_TAKES = 0.5  # seconds for each booking of the process Travel

JOBEXEC = {
    "THREADS": 10,
    "CATEGORIES": ["default", "mail"],
    # What the flight service bears. It fails one time in three by nature: the breaker is for worse.
    "RESOURCES": {
        "flights": {
            "limit": 5,
            "breaker": {"failure_rate": 70, "window": 20, "minimum_calls": 10, "wait": 5, "trial_calls": 3},
        },
    },
    # Short, because somebody watches: three attempts, two seconds apart.
    "DEFAULT_RETRY_PLAN": "R3/PT2S",
    # Kill an executor, start another, and see after ten seconds that nothing is lost.
    "LEASE_TIME": 10,
    "HEARTBEAT_INTERVAL": 3,
    "RECOVERY_INTERVAL": 3,
    "GRACE_PERIOD": 10,
}
