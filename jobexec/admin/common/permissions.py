"""Permissions for operations: those of the models, under the names that actions use."""

from __future__ import annotations

from django.http import HttpRequest

from jobexec.conf import get_settings


class OperationPermissions:
    """``has_<name>_permission`` for every operation on jobs; mixed into the admin of each table that has actions.

    The permissions of the model Job apply to all job tables, because jobs move between them.
    """

    def has_enqueue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.enqueue_job")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.retry_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.cancel_job")

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.suspend_job")

    def has_activate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.activate_job")

    def has_reschedule_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.reschedule_job")

    def has_prioritize_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.prioritize_job")

    def has_unlock_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.unlock_job")

    def has_execute_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.execute_job")

    def has_bury_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.bury_job")

    def has_reencrypt_permission(self, request: HttpRequest) -> bool:
        return bool(get_settings().encryption_keys) and request.user.has_perm("jobexec.reencrypt_job")

    def has_reveal_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.reveal_job")

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.requeue_deadletterjob")

    def has_register_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.register_deployment")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.manage_batch")

    def has_annotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.annotate_incident")

    def has_fire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.fire_schedule")

    def has_publish_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.publish_message")

    def has_manage_group_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.manage_failuregroup")

    def has_limit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.change_resource")
