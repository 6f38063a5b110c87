from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "demo_project.workflows"
