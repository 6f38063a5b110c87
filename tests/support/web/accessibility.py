"""Accessibility problems of a page: findings of axe, and contrasts that axe cannot decide."""

import re
from typing import Any

import pytest

_GRAVE = ("serious", "critical")
_OPTIONS = {"resultTypes": ["violations"], "preload": False}
#: The other rules do not depend on colours or on the window's width.
_LOOKS = {
    "type": "rule",
    "values": ["color-contrast", "link-in-text-block", "scrollable-region-focusable"],
}
_LEAST_CONTRAST = 4.5  # WCAG AA

_COLOURS = """() => [...document.querySelectorAll("[class*=jobexec-], #jobexec-dashboard *")].filter(e => e.innerText)
.map(e => {
    let behind = e;
    const paint = () => getComputedStyle(behind).backgroundColor;
    while (behind.parentElement && paint() === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    return [e.className || e.outerHTML.slice(0, 80), getComputedStyle(e).color, paint()];
})"""


def grave_findings(page: Any, *, looks_only: bool = False) -> set[tuple[str, str]]:
    """Return the rules violated with serious or critical impact according to axe, and the elements' selectors."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {**_OPTIONS, "runOnly": _LOOKS} if looks_only else _OPTIONS
    page.evaluate("document.getAnimations().forEach(each => each.finish())")  # no colours in the middle of a transition
    violations = axe.run(page, options=options).response["violations"]
    return {
        (violation["id"], str(node["target"][0]))
        for violation in violations
        for node in violation["nodes"]
        if node["impact"] in _GRAVE
    }


def poor_contrasts(page: Any) -> list[Any]:
    """Return our elements with poorly readable text, with both colours."""
    return [colour for colour in page.evaluate(_COLOURS) if _contrast(*colour[1:]) < _LEAST_CONTRAST]


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
