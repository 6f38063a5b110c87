"""Accessibility problems of a page: findings of axe, contrasts that axe cannot decide, and what does not fit."""

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
PHONE = 767
"""The widest window in which the rows of tables are cards, in pixels."""

_COLOURS = """() => [...document.querySelectorAll("[class*=jobexec-], #jobexec-dashboard *")].filter(e => e.innerText)
.map(e => {
    let behind = e;
    const paint = () => getComputedStyle(behind).backgroundColor;
    while (behind.parentElement && paint() === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    return [e.className || e.outerHTML.slice(0, 80), getComputedStyle(e).color, paint()];
})"""

_TOO_WIDE = """phone => {
    const frames = ".results, .jobexec-scroll";
    const free = `${frames}, pre, textarea, .visually-hidden, svg, #jobexec-diagram`;
    const scrolls = box => innerWidth <= phone && box.scrollWidth > box.clientWidth + 1;
    const found = [...document.querySelectorAll(frames)].filter(scrolls);
    const page = document.documentElement;
    if (page.scrollWidth > innerWidth) found.push(page);
    for (const element of document.querySelectorAll("#content *")) {
        const place = element.getBoundingClientRect();
        if (place.width && !element.closest(free) && place.right > innerWidth + 1) found.push(element);
    }
    return found.map(element => element.outerHTML.slice(0, 120));
}"""

_HIDDEN = """([names, phone]) => names.filter(name => {
    const cells = [...document.querySelectorAll(`#result_list tbody .field-${name}`)];
    const ends = cell => cell.closest(".results").getBoundingClientRect().right + 1;
    const nameless = cell => innerWidth <= phone && cell.matches("td:not([data-label])");
    return !cells.length || cells.some(cell => cell.getBoundingClientRect().right > ends(cell) || nameless(cell));
})"""


def grave_findings(page: Any, *, looks_only: bool = False, within: str | None = None) -> set[tuple[str, str]]:
    """Return the rules violated with serious or critical impact according to axe, and the elements' selectors.

    With the selector `within`, only elements within those that it selects count; there must be one.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {**_OPTIONS, "runOnly": _LOOKS} if looks_only else _OPTIONS
    page.evaluate("document.getAnimations().forEach(each => each.finish())")  # no colours in the middle of a transition
    violations = axe.run(page, context=within, options=options).response["violations"]
    return {
        (violation["id"], str(node["target"][0]))
        for violation in violations
        for node in violation["nodes"]
        if node["impact"] in _GRAVE
    }


def poor_contrasts(page: Any) -> list[Any]:
    """Return our elements with poorly readable text, with both colours."""
    return [colour for colour in page.evaluate(_COLOURS) if _contrast(*colour[1:]) < _LEAST_CONTRAST]


def too_wide(page: Any) -> list[str]:
    """Return what ends right of the window. On a phone, nothing but code and diagrams may be scrolled sideways."""
    found: list[str] = page.evaluate(_TOO_WIDE, PHONE)
    return found


def hidden_columns(page: Any, names: str) -> list[str]:
    """Return those of these columns of a list that are cut off, or on a phone lack their names."""
    found: list[str] = page.evaluate(_HIDDEN, [names.split(), PHONE])
    return found


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
