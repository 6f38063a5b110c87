"""Results of django.tasks."""
