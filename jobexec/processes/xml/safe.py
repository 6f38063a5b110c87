"""Bytes to a tree, without any of the powers of XML: no DOCTYPE, no entities, no network, no other files.

Expat reads the bytes first and stops at what is refused, before lxml builds anything. XInclude is never processed: its
elements are unknown ones, which the readers refuse. Processing instructions are refused because files are offered for
download, and a browser would execute a stylesheet that one of them names.
"""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from lxml import etree

from jobexec.processes.definition import InvalidProcess, Problem

MAX_BYTES = 2 * 1024 * 1024
MAX_ELEMENTS = 5_000
MAX_LEVELS = 100
MAX_ATTRIBUTE = 64 * 1024

#: The element that problems of the file as such are reported at.
FILE = "file"
# Both parsers decode these alike.
_ENCODINGS = frozenset({"utf-8", "utf-16", "us-ascii", "ascii", "iso-8859-1"})
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_DECLARATION = re.compile(r"\A(<\?xml[^>]*?encoding\s*=\s*[\"'])[A-Za-z0-9._-]+")
#: How files in UTF-16 begin: with a mark of their byte order, or with "<".
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}


def parse(data: bytes) -> etree._Element:
    """The root of a document. Raises InvalidProcess if it is malformed, too large, or uses what is refused."""
    if len(data) > MAX_BYTES:
        _refuse(f"The file has {len(data):,} bytes; expected at most {MAX_BYTES:,}.")
    declared = _declared(data)
    if declared and declared.lower() not in _ENCODINGS:
        _refuse(f"The encoding {declared} is not accepted; expected UTF-8.", 1)
    _Scanner().scan(data)
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        _refuse(f"The file is not well-formed XML: {error.msg}.", error.lineno)
    if root.getroottree().docinfo.internalDTD is not None:
        _refuse("A DOCTYPE is not accepted.")
    return root


def text_of(data: bytes) -> str:
    """A document that :func:`parse` accepts, as text to be stored, and downloaded as UTF-8: it declares that, too."""
    encoding = (_WIDE.get(data[:2]) or _declared(data) or "utf-8").lower()
    text = data.decode(encoding)
    return text if encoding == "utf-8" else _DECLARATION.sub(r"\1UTF-8", text, count=1)


def _declared(data: bytes) -> str | None:
    found = _DECLARED.match(data.removeprefix(b"\xef\xbb\xbf"))
    return found[1].decode() if found else None


class _Scanner:
    """One pass over the bytes that counts, and stops at the first thing that is refused."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate(namespace_separator=" ")
        self._expat.StartDoctypeDeclHandler = lambda *_: self._refuse("A DOCTYPE is not accepted.")
        self._expat.EntityDeclHandler = lambda *_: self._refuse("An entity is not accepted.")
        self._expat.ProcessingInstructionHandler = self._instruction
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._elements = self._level = 0

    def scan(self, data: bytes) -> None:
        try:
            self._expat.Parse(data, True)
        except expat.ExpatError as error:
            _refuse(f"The file is not well-formed XML: {expat.ErrorString(error.code)}.", error.lineno)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        self._level += 1
        if self._elements > MAX_ELEMENTS:
            self._refuse(f"The file has more than {MAX_ELEMENTS:,} elements.")
        if self._level > MAX_LEVELS:
            self._refuse(f"The elements are nested more than {MAX_LEVELS} levels deep.")
        for value in attributes.values():
            if len(value) > MAX_ATTRIBUTE:
                self._refuse(f"An attribute has more than {MAX_ATTRIBUTE:,} characters.")

    def _end(self, name: str) -> None:
        self._level -= 1

    def _instruction(self, target: str, data: str) -> None:
        self._refuse(f"The processing instruction {target!r} is not accepted.")

    def _refuse(self, message: str) -> NoReturn:
        _refuse(message, self._expat.CurrentLineNumber)


def _refuse(message: str, line: int | None = None) -> NoReturn:
    raise InvalidProcess([Problem(FILE, message, line)]) from None
