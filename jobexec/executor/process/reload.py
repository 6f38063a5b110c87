"""Detects changed source files, for --reload."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from django.apps import apps
from django.utils import autoreload

_Stamp: TypeAlias = tuple[int, int]

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_TEST_FOLDERS = frozenset({"test", "tests"})
_STANDARD = Path(sysconfig.get_paths()["stdlib"]).resolve()


class SourceWatcher:
    """Returns which of ``files`` have changed, appeared or gone since the last call."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._stamps = self._look()

    def __call__(self) -> list[Path]:
        before, self._stamps = self._stamps, self._look()
        paths = before.keys() | self._stamps.keys()
        return sorted(path for path in paths if before.get(path) != self._stamps.get(path))

    def _look(self) -> dict[Path, _Stamp]:
        stamps = {}
        for path in self._files():
            try:
                found = path.stat()
            except OSError:
                continue
            # The size, too: two saves within one tick of the file system's clock have the same time.
            stamps[path] = found.st_mtime_ns, found.st_size
        return stamps


def source_files() -> Iterator[Path]:
    """Every module loaded here, and every Python file in the packages of the project's own apps.

    The latter, because modules loaded here are not all that matter: the processes that run jobs import more later, a
    new file may be the first ``jobs`` of its app, and a file with an error in it was never loaded.
    """
    yield from autoreload.iter_all_python_module_files()
    for app in apps.get_app_configs():
        root = Path(app.path).resolve()
        if _of_the_project(root):
            yield from _python_files(root)


def _of_the_project(path: Path) -> bool:
    return _INSTALLED.isdisjoint(path.parts) and not path.is_relative_to(_STANDARD)


def _python_files(root: Path) -> Iterator[Path]:
    """The files of a package and its subpackages, without tests, which run no jobs.

    Only packages: beside the code there may be folders with very many files, of JavaScript or uploads.
    """
    for folder, folders, names in os.walk(root):
        if folder != str(root) and "__init__.py" not in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in _TEST_FOLDERS]
        yield from (Path(folder, name) for name in names if name.endswith(".py") and not _is_test(name))


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name in ("tests.py", "conftest.py")
