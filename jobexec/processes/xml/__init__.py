"""BPMN 2.0 files, in the dialects of Camunda 7, Flowable and Camunda 8, read into definitions.

``read(data)`` returns a Model: the processes and what the drawing needs. What jobexec does not execute is refused with
the element's id and line, all problems of a file at once. Only this package imports lxml (extra ``bpmn``).
"""

from __future__ import annotations

from .model import Edge, Model, Participant, Shape
from .read import read
from .safe import text_of

__all__ = ["Edge", "Model", "Participant", "Shape", "read", "text_of"]
