"""Sphinx: `sphinx-build -W docs docs/_build`."""

import sys
import tomllib
from pathlib import Path

import django
from django.conf import settings as django_settings

sys.path.insert(0, str(Path(__file__).parents[1]))

# autodoc imports the models, and models need settings.
django_settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "jobexec", "jobexec.processes"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
)
django.setup()

_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = _project["name"]
author = "jobexec contributors"
copyright = f"2026, {author}"
version = release = _project["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["jobexec.css"]
