"""Give a copy of the checkout the public address of its repository, before it is built.

    python .ci/address.py FOLDER https://example.org/jobexec

On PyPI, README.md is the description, where relative links and images do not work. In the repository they stay
relative, so that they work on each branch, and before the repository has an address.
"""

import re
import sys
from pathlib import Path

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)]\((?!\w+:|#)(?P<path>[^)]+)\)")


def absolute(text: str, address: str) -> str:
    """Return Markdown with absolute links and images."""

    def changed(link: re.Match[str]) -> str:
        view = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({address}/{view}/HEAD/{link['path']})"

    return _LINK.sub(changed, text)


def urls(address: str) -> str:
    """Return the section of pyproject.toml that becomes the links beside the description."""
    pages = {
        "Source": address,
        "Documentation": f"{address}/blob/HEAD/docs/index.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in pages.items())


def main(folder: str, address: str) -> None:
    if not re.fullmatch(r"https://[\w.:-]+(/[\w.~-]+)+/?", address):
        sys.exit(f"expected the address of the repository, such as https://example.org/jobexec, not {address!r}")
    address = address.rstrip("/")
    readme, project = Path(folder, "README.md"), Path(folder, "pyproject.toml")
    readme.write_text(absolute(readme.read_text(), address))
    project.write_text(project.read_text() + urls(address))


if __name__ == "__main__":
    main(*sys.argv[1:])
