"""Arguments of questions: what comes is what was asked for, or one sentence."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.mcp.arguments import checked, schema_of
from headway.mcp.tools import TOOLS

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = sorted({name for tool in TOOLS.values() for name in tool.arguments} | {"unknown"})


@given(st.sampled_from(sorted(TOOLS)), json_values | st.dictionaries(st.sampled_from(names), json_values, max_size=4))
def test_what_is_accepted_fits_the_schema_and_what_is_not_is_one_sentence(name: str, given_: Any) -> None:
    arguments = TOOLS[name].arguments
    try:
        found = checked(arguments, given_)
    except HeadwayError as error:
        said = str(error)
        assert said.isprintable()
        assert len(said) < 500
        return
    assert found.keys() == arguments.keys()
    kept = {key: value for key, value in (given_ or {}).items() if value is not None}
    jsonschema.Draft202012Validator(schema_of(arguments)).validate(kept)
    assert all(found[key] == value for key, value in kept.items())


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_each_schema_is_one(name: str) -> None:
    schema = schema_of(TOOLS[name].arguments)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    for argument in TOOLS[name].arguments.values():
        assert argument.default is None or argument.fits(argument.default)
        assert argument.what.endswith(".")


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "file is missing: give a text"),
        ({"file": ""}, "file is '': give a text"),
        ({"file": 7}, "file is 7: give a text"),
        ({"file": "\ud800"}, "give a text"),
        ({"file": "a", "limit": 0}, "limit is 0: give a whole number from 1 to 1000"),
        ({"file": "a", "limit": True}, "limit is True: give a whole number"),
        ({"file": "a", "limit": 1e3}, "limit is 1000.0: give a whole number"),
        ({"file": "a", "by": "x"}, "by is 'x': give one of thread, name, process"),
        ({"file": "a", "more": 1}, "there is no argument more: give file"),
        ([], "the arguments are a list: give a table"),
    ],
)
def test_a_wrong_argument_is_answered_with_what_to_give(given_: Any, words: str) -> None:
    with pytest.raises(HeadwayError, match=words):
        checked(TOOLS["stat"].arguments, given_)


@pytest.mark.parametrize("value", ["parse=2x", [""], [7], ["x" * 401], ["x"] * 17, ["\ud800"], {"a": "b"}])
def test_a_wrong_list_is_answered_with_what_to_give(value: Any) -> None:
    with pytest.raises(HeadwayError, match="give a list of at most 16 texts of 1 to 400 characters"):
        checked(TOOLS["what_if"].arguments, {"file": "a", "faster": value})
