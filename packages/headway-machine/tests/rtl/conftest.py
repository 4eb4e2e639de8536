"""Where the extra rtl is not installed, none of these tests is collected."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("amaranth") else ["test_*.py"]
