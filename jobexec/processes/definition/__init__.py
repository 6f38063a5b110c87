"""Process definitions: frozen dataclasses, their JSON, and the rules that they obey. Pure values.

``values`` says what may be computed, and ``parts`` what a node is made of. ``node``, ``flow`` and ``process`` are the
graph. The readers of BPMN and the builder of flows make a ``Process``; ``validate`` says what is wrong with it, by
element and line; ``as_json`` stores it.
"""

from __future__ import annotations

from .as_json import from_json, shape, to_json
from .flow import Flow
from .node import GATEWAYS, TERMINATES, Kind, Node
from .parts import (
    DEFAULTS,
    Binding,
    Call,
    Event,
    Form,
    JobOptions,
    Listener,
    Loop,
    Mapping,
    Mode,
    TimerKind,
    Trigger,
    When,
    Work,
)
from .problem import InvalidProcess, Problem
from .process import Process
from .validate import problems_of, validate
from .values import Expression, Language, Value, expressions_in

__all__ = [
    "DEFAULTS",
    "GATEWAYS",
    "TERMINATES",
    "Binding",
    "Call",
    "Event",
    "Expression",
    "Flow",
    "Form",
    "InvalidProcess",
    "JobOptions",
    "Kind",
    "Language",
    "Listener",
    "Loop",
    "Mapping",
    "Mode",
    "Node",
    "Problem",
    "Process",
    "TimerKind",
    "Trigger",
    "Value",
    "When",
    "Work",
    "expressions_in",
    "from_json",
    "problems_of",
    "shape",
    "to_json",
    "validate",
]
