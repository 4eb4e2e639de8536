"""The documentation as a site and as man pages: ``make docs``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import click
from tools.site.commands import command_named

import headway
from headway.commands import group

project = "headway"
author = "The headway developers"
project_copyright = author
release = version = headway.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "tools.site"]
highlight_language = "text"
smartquotes = False  # -- begins an option
default_role = "py:obj"  # `name` in docstrings
toc_object_entries = False
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # an unqualified name in an annotation that two modules have

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autoclass_content = "both"  # what a class is, and what makes one
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"headway {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False

# One man page a command; its one line is that of headway --help.
_commands = [command_named(name) for name in group.list_commands(click.Context(group))]
man_pages = [("reference/headway", "headway", "what progress each thread of a program makes", [], 1)] + [
    (f"reference/headway-{one.info_name}", f"headway-{one.info_name}", one.command.short_help, [], 1)
    for one in _commands
]
manpages_url = "{page}.html"  # they refer to each other, and are in one folder
