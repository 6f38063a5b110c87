"""A small booking site that shows how a Django project uses jobexec. Begin reading at bookings/services.py."""
