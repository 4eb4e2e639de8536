"""Tables of TOML as Python modules: they have what the files have."""

from __future__ import annotations

import tomllib
from importlib import import_module, resources

import pytest

from headway.linux.toml_module import as_module

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("package", "file", "module"),
    [
        ("headway.linux.bpf.polling", "checks.toml", "_ready_made"),
        ("headway.linux.perf", "counters.toml", "_counter_table"),
    ],
)
def test_a_module_that_the_build_made_has_the_content_of_its_file(package: str, file: str, module: str) -> None:
    text = (resources.files(package) / file).read_text(encoding="utf-8")
    content: dict[str, object] = {}
    exec(as_module(text), content)
    assert import_module(f"{package}.{module}").CONTENT == tomllib.loads(text) == content["CONTENT"]
