"""headway mcp, asked by the official library's own client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.effort import FEW
from tests.levels import descendants
from tests.mcp.asked import recorded_in
from tests.running import headway

from headway.mcp.arguments import schema_of
from headway.mcp.prompts import PROMPTS, prompted
from headway.mcp.readable import ReadableFiles
from headway.mcp.tools import TOOLS, ask

pytestmark = pytest.mark.end_to_end

if TYPE_CHECKING:
    from mcp import Client, MCPError, StdioServerParameters
else:
    mcp = pytest.importorskip("mcp", reason="needs the extra mcp")
    Client, MCPError, StdioServerParameters = mcp.Client, mcp.MCPError, mcp.StdioServerParameters

RUN = "import sys; from headway.commands import main; sys.argv[0] = 'headway'; main()"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    recorded_in(folder / "a.hw", 5)
    recorded_in(folder / "b.hw", 6)
    (folder.parent / "secret.json").write_text('{"schema":"headway.stat/1"}')
    return folder


def text_of(result: Any) -> str:
    (part,) = result.content
    found: str = part.text
    return found


async def the_questions_are_listed_with_their_schemas(client: Client, runs: Path) -> None:
    assert client.server_info is not None
    assert client.server_info.name == "headway"
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [*TOOLS]
    for tool in tools:
        assert tool.input_schema == schema_of(TOOLS[tool.name].arguments)
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


async def the_prompts_are_listed_and_filled_in(client: Client, runs: Path) -> None:
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert [*prompts] == [name for name, prompt in PROMPTS.items() if not prompt.measures]
    for name, prompt in prompts.items():
        assert prompt.arguments is not None
        given = {argument.name: f"{argument.name}.hw" for argument in prompt.arguments}
        (message,) = (await client.get_prompt(name, given)).messages
        assert message.content.type == "text"
        assert message.content.text == prompted(name, given)
        assert all(value in message.content.text for value in given.values())
    for name in ("why_slow", "nothing"):  # the first needs a file
        with pytest.raises(MCPError, match="why_slow"):
            await client.get_prompt(name, {})


async def each_question_is_answered_as_it_is_in_python(client: Client, runs: Path) -> None:
    files = ReadableFiles([str(runs)])
    questions: list[tuple[str, dict[str, Any]]] = [
        ("files", {}),
        ("stat", {"file": "a.hw", "by": "thread"}),
        ("advise", {"file": "a.hw"}),
        ("at", {"file": "a.hw", "time": "1ms"}),
        ("query", {"file": "a.hw", "sql": "SELECT state, sum(time) AS time FROM states GROUP BY ALL ORDER BY ALL"}),
        ("query", {"file": "a.hw", "question": "wait-chains"}),
        ("diff", {"a": "a.hw", "b": "b.hw"}),
        ("what_if", {"file": "a.hw", "faster": ["user=2x"]}),
    ]
    for name, arguments in questions:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, text_of(result)
        expected = json.loads(json.dumps(ask(name, arguments, files)))
        assert json.loads(text_of(result)) == result.structured_content == expected


async def what_is_wrong_is_an_error_of_the_tool_and_the_server_goes_on(client: Client, runs: Path) -> None:
    wrong: list[tuple[str, Any, str]] = [
        ("nothing", {}, "there is no question 'nothing'"),
        ("stat", {}, "file is missing"),
        ("stat", {"file": "../secret.json"}, "among the files that may be read"),
        ("stat", {"file": str(runs.parent / "secret.json")}, "among the files that may be read"),
        ("query", {"file": "a.hw", "sql": "COPY (SELECT 1) TO 'x'"}, "not one SELECT"),
        ("query", {"file": "a.hw", "sql": "SELECT * FROM read_text('/etc/passwd')"}, "cannot be answered"),
        ("at", {"file": "a.hw", "time": "\x1b[31m"}, "time"),
    ]
    for name, arguments, words in wrong:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert words in text_of(result)
        assert "\n" not in text_of(result)
    assert not (await client.call_tool("files", {})).is_error


async def questions_at_the_same_time_are_all_answered(client: Client, runs: Path) -> None:
    sql = "SELECT {} AS n FROM range(1000)"
    asked = (client.call_tool("query", {"file": "a.hw", "sql": sql.format(number)}) for number in range(8))
    for number, result in enumerate(await asyncio.gather(*asked)):
        assert json.loads(text_of(result))["rows"][0] == [number]


def test_a_server_answers_one_question_after_another_and_many_at_once(runs: Path) -> None:
    async def talk() -> None:
        server = StdioServerParameters(command=sys.executable, args=["-c", RUN, "mcp", str(runs)])
        async with asyncio.timeout(250), Client(server) as client:
            await the_questions_are_listed_with_their_schemas(client, runs)
            await the_prompts_are_listed_and_filled_in(client, runs)
            await each_question_is_answered_as_it_is_in_python(client, runs)
            await what_is_wrong_is_an_error_of_the_tool_and_the_server_goes_on(client, runs)
            await questions_at_the_same_time_are_all_answered(client, runs)

    asyncio.run(talk())


SAID = [b"", b"\xff\xfe\n{\n[]\n" + b"1" * 100_000, b"\n", b"{", b"\xff\xfe\n", b"[]\n"]
SAID += [b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n', b"1" * 100_000]


@pytest.mark.parametrize("said", SAID[: 2 if FEW else None])
def test_whatever_comes_in_the_server_ends_with_its_input(runs: Path, said: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "mcp", str(runs)], input=said, capture_output=True, check=False, timeout=100
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    for line in done.stdout.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    ("places", "words"),
    [([], "name recordings, saved documents"), (["/no/such/folder"], "cannot be read (No such file or directory)")],
)
def test_a_place_that_is_not_there_is_said_before_anything_is_answered(places: list[str], words: str) -> None:
    done = headway("mcp", *places)
    assert done.returncode == 125
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"


@pytest.mark.parametrize("ends", ["notifications/cancelled", "input"])
def test_a_question_that_nobody_waits_for_any_more_is_not_computed(runs: Path, ends: str) -> None:
    asked = {"name": "query", "arguments": {"file": "a.hw", "sql": ENDLESS}}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": asked},
    ]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "mcp", runs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
        while len(descendants(server.pid)) < 2:  # one that computes, one that ends it
            assert server.poll() is None
            time.sleep(0.001)
        if ends != "input":
            cancelled = {"jsonrpc": "2.0", "method": ends, "params": {"requestId": 2, "reason": "enough"}}
            server.stdin.write(json.dumps(cancelled) + "\n")
            server.stdin.flush()
            while descendants(server.pid):
                assert server.poll() is None
                time.sleep(0.001)
        server.stdin.close()
        assert server.wait() == 0
