"""An element of a file while it is read. What no reader asks for is a problem: nothing of a file is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .names import (
    BPMN,
    DRAWING,
    DRAWN_ATTRIBUTES,
    DRAWN_ELEMENTS,
    DRAWN_EXTENSIONS,
    DRAWN_VENDOR_ATTRIBUTES,
    JOBEXEC,
    VENDORS,
    ZEEBE,
    shown,
)

if TYPE_CHECKING:
    from lxml import etree

    from .reading import Reading

#: Elements with ids of their own that are parts of others.
_PARTS = (
    *("EventDefinition", "Expression", "Condition", "Characteristics", "Cardinality"),
    *("timeDate", "timeCycle", "timeDuration"),
)
_TRUE_FALSE = {"true": True, "1": True, "false": False, "0": False}


class Element:
    """One element, its attributes and children. Each of them is marked as read when it is asked for."""

    def __init__(self, node: etree._Element, reading: Reading, parent: Element | None = None) -> None:
        self._node = node
        self._reading = reading
        self._parent = parent
        self._attributes = {_split(str(name)): str(value) for name, value in node.attrib.items()}
        self._unread = set(self._attributes)
        self.is_read = parent is None
        self.namespace, self.name = _split(str(node.tag))

    @property
    def id(self) -> str:
        """Its id, or that of the nearest element around it that is drawn and has one: problems name what one sees."""
        found = self._attributes.get((None, "id"))
        if found and self.namespace == BPMN and not self.name.endswith(_PARTS):
            return found
        return self._parent.id if self._parent is not None and self._parent._parent is not None else self.shown

    @property
    def line(self) -> int | None:
        line: Any = self._node.sourceline
        return None if line is None else int(line)

    @property
    def shown(self) -> str:
        return shown(self.namespace, self.name)

    @property
    def text(self) -> str:
        return (self._node.text or "").strip()

    @property
    def all_text(self) -> str:
        """Its text with that of the elements inside, whose markup is left out."""
        self.discard()
        return "".join(map(str, self._node.itertext())).strip()

    def problem(self, message: str) -> None:
        self._reading.problem(self, message)

    def own_id(self) -> str:
        """The id that it must have."""
        found = self.get("id")
        if not found:
            self.problem(f"The {self.shown} needs an id.")
        return found or self.id

    def get(self, name: str, namespace: str | None = None) -> str | None:
        """An attribute without its blanks, None if it is missing."""
        self._unread.discard((namespace, name))
        found = self._attributes.get((namespace, name))
        return None if found is None else found.strip()

    def vendor(self, *names: str) -> str | None:
        """An attribute of Camunda 7, Flowable or Activiti by one of its names; '' counts as missing."""
        for name in names:
            for namespace in VENDORS:
                found = self.get(name, namespace)
                if found:
                    return found
        return None

    def own(self, name: str) -> str | None:
        """An attribute of jobexec."""
        return self.get(name, JOBEXEC)

    def flag(self, name: str, default: bool) -> bool:
        return self._flag(name, self.get(name), default)

    def vendor_flag(self, name: str, default: bool) -> bool:
        return self._flag(name, self.vendor(name), default)

    def refuse_attributes(self, reasons: dict[str, str]) -> None:
        """Report each of these attributes of vendors, if it is there, with its reason."""
        for name, reason in reasons.items():
            if self.vendor(name) is not None:
                self.problem(f"The attribute {name} is not supported: {reason}.")

    @cached_property
    def _children(self) -> list[Element]:
        return [Element(child, self._reading, self) for child in self._node if isinstance(child.tag, str)]

    def children(self, *names: str, namespace: str = BPMN) -> Iterator[Element]:
        """Children with one of these names; all of the namespace without names."""
        for child in self._children:
            if child.namespace == namespace and (not names or child.name in names):
                child.is_read = True
                yield child

    def child(self, name: str, namespace: str = BPMN) -> Element | None:
        """The only child with this name."""
        return self._only(list(self.children(name, namespace=namespace)))

    def vendor_children(self, name: str) -> list[Element]:
        """Children of Camunda 7, Flowable or Activiti with this name, in their order."""
        found = [child for child in self._children if child.namespace in VENDORS and child.name == name]
        for child in found:
            child.is_read = True
        return found

    def vendor_child(self, name: str) -> Element | None:
        return self._only(self.vendor_children(name))

    @cached_property
    def _extensions(self) -> Element | None:
        return self.child("extensionElements")

    def extensions(self, name: str) -> list[Element]:
        """Elements of Camunda 7, Flowable or Activiti in its extensionElements."""
        return self._extensions.vendor_children(name) if self._extensions is not None else []

    def extension(self, name: str) -> Element | None:
        return self._only(self.extensions(name))

    def zeebe(self, name: str) -> Element | None:
        """The element of Zeebe with this name in its extensionElements."""
        return self._extensions.child(name, ZEEBE) if self._extensions is not None else None

    def unread_children(self) -> list[Element]:
        """Children that no reader has asked for, and that do more than draw."""
        return [child for child in self._children if not child.is_read and not child._is_drawn]

    def discard(self) -> None:
        """Take all of it as read, because a problem says already why it is refused, or because it only draws."""
        self.is_read = True
        self._unread.clear()
        for child in self._children:
            child.discard()

    def report_unread(self) -> None:
        """Report what was not read here and in the children that were read."""
        if self._extensions is not None:  # also if nothing in it was asked for
            self._extensions.is_read = True
        for namespace, name in sorted(self._unread, key=str):
            if not _is_drawn_attribute(namespace, name):
                self.problem(f"The attribute {shown(namespace, name)} of {self.shown} is not supported.")
        for child in self.unread_children():
            child.problem(f"The element {child.shown} is not supported here.")
        for child in self._children:
            if child.is_read:
                child.report_unread()

    @property
    def _is_drawn(self) -> bool:
        if self.namespace == BPMN:
            return self.name in DRAWN_ELEMENTS
        return self.namespace in DRAWING or (self.namespace in VENDORS and self.name in DRAWN_EXTENSIONS)

    def _only(self, found: list[Element]) -> Element | None:
        for surplus in found[1:]:
            surplus.problem(f"Only one {surplus.shown} is possible here.")
        return found[0] if found else None

    def _flag(self, name: str, text: str | None, default: bool) -> bool:
        if text is None:
            return default
        if text.lower() not in _TRUE_FALSE:
            self.problem(f"The attribute {name} is {text!r}; expected true or false.")
        return _TRUE_FALSE.get(text.lower(), default)


def _is_drawn_attribute(namespace: str | None, name: str) -> bool:
    if namespace is None:
        return name == "id" or name == "name" or name in DRAWN_ATTRIBUTES
    if namespace in VENDORS or namespace == ZEEBE:
        return name in DRAWN_VENDOR_ATTRIBUTES
    return namespace in DRAWING


def _split(name: str) -> tuple[str | None, str]:
    if name.startswith("{"):
        namespace, _, local = name[1:].partition("}")
        return namespace, local
    return None, name
