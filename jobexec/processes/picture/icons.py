"""The marks inside of activities, events and gateways, each 14 wide and high."""

from __future__ import annotations

from django.utils.safestring import SafeString

from ..definition import Kind, Trigger
from ..definition.node import Node

_ENVELOPE = '<path d="M1 3h12v8H1zM1 3l6 4.5L13 3"></path>'
_COG = '<circle class="jobexec-cog" cx="7" cy="7" r="4.8"></circle><circle cx="7" cy="7" r="2"></circle>'
_ERROR = '<path d="M2 12l3-9 4 6 3-7-2.5 10-4-5.5z"></path>'

_KINDS = {
    Kind.USER_TASK: '<circle cx="7" cy="4" r="3"></circle><path d="M1 13c0-7 12-7 12 0z"></path>',
    Kind.MANUAL_TASK: '<path d="M1 5l4-3h4l-2 2h6v2H8h5v2H8h4v2H8h3v2H4L1 9z"></path>',
    Kind.SERVICE_TASK: _COG,
    Kind.SCRIPT_TASK: '<path d="M3 1h9L9.5 5l2 4L9 13H1l2.5-4-2-4zM4.5 5h4M5 9h4"></path>',
    Kind.BUSINESS_RULE_TASK: '<path d="M1 2h12v10H1zM1 5h12M1 8.5h12M5 5v7"></path>',
    Kind.SEND_TASK: _ENVELOPE,
    Kind.RECEIVE_TASK: _ENVELOPE,
    Kind.EXCLUSIVE_GATEWAY: '<path class="jobexec-thick" d="M3 3l8 8M11 3l-8 8"></path>',
    Kind.PARALLEL_GATEWAY: '<path class="jobexec-thick" d="M7 1v12M1 7h12"></path>',
    Kind.INCLUSIVE_GATEWAY: '<circle class="jobexec-thick" cx="7" cy="7" r="5.5"></circle>',
    Kind.EVENT_BASED_GATEWAY: '<circle cx="7" cy="7" r="6.5"></circle><path d="M7 3l4 3-1.5 4.5h-5L3 6z"></path>',
}
_TRIGGERS = {
    Trigger.TIMER: '<circle cx="7" cy="7" r="6"></circle><path d="M7 3v4l3 1.5"></path>',
    Trigger.MESSAGE: _ENVELOPE,
    Trigger.SIGNAL: '<path d="M7 1.5l5.5 9.5h-11z"></path>',
    Trigger.ERROR: _ERROR,
    Trigger.FAILURE: _ERROR,
    Trigger.ESCALATION: '<path d="M7 1.5l4.5 11L7 8.5l-4.5 4z"></path>',
    Trigger.TERMINATE: '<circle cx="7" cy="7" r="5"></circle>',
    Trigger.LINK: '<path d="M1.5 5h6V2.5l5 4.5-5 4.5V9h-6z"></path>',
    Trigger.COMPENSATION: '<path d="M7 3v8L1.5 7zM12.5 3v8L7 7z"></path>',
}
#: Of a multi-instance, by whether it is sequential.
LOOP_ICONS = {
    False: SafeString('<path d="M3 2v10M7 2v10M11 2v10"></path>'),
    True: SafeString('<path d="M1 3h12M1 7h12M1 11h12"></path>'),
}


def icon_of(node: Node) -> SafeString:
    """The mark of a node; empty for a plain one."""
    drawn = _KINDS.get(node.kind)
    if drawn is None and node.trigger is not None:
        drawn = _TRIGGERS.get(node.trigger)
    return SafeString(drawn or "")
