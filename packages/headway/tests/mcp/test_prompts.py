"""Prompts: they ask questions that there are, and need the arguments that they name."""

from __future__ import annotations

import re

import pytest

from headway.errors import HeadwayError
from headway.mcp.prompts import PROMPTS, prompted
from headway.mcp.tools import TOOLS

pytestmark = pytest.mark.unit

QUESTIONS = {*TOOLS, "measure"}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_asks_questions_that_there_are(name: str) -> None:
    prompt = PROMPTS[name]
    assert set(re.findall(r"\{(\w+)\}", prompt.text)) == set(prompt.arguments)
    asked = set(re.findall(r"\b(?:[Aa]sk|and|with|for) (\w+)\b", prompt.text)) & QUESTIONS
    assert asked, "it says what to ask"
    assert prompt.measures == ("measure" in asked)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_needs_its_arguments(name: str) -> None:
    arguments = {argument: f"<{argument}>" for argument in PROMPTS[name].arguments}
    text = prompted(name, arguments)
    assert "{" not in text
    assert all(value in text for value in arguments.values())
    for missing in arguments:
        with pytest.raises(HeadwayError, match=f"needs {missing}"):
            prompted(name, {key: value for key, value in arguments.items() if key != missing})


def test_an_argument_is_not_filled_into_another() -> None:
    assert "with a = {after} and b = x" in prompted("what_changed", {"before": "{after}", "after": "x"})
