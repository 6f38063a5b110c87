"""``manage.py processes``."""
