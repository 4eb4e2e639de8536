from __future__ import annotations

import re
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.machine.sentences import given_or_sentence

from headway.errors import HeadwayError
from headway_machine import Cache, Machine
from headway_machine.config import (
    ANY,
    L2,
    STATUS_REGISTERS,
    BlockDevice,
    Config,
    ConfigPart,
    Division,
    ExternalInterrupt,
    Range,
    Script,
    Smi,
    StatusRegister,
    Uart,
)
from headway_machine.fields import Choice, ConfigError, Number, Size, Switch, Text

text = st.text(st.characters(codec="utf-8"), max_size=30)


def values(part: type[ConfigPart], name: str) -> st.SearchStrategy[Any]:
    """Any value that the field may have."""
    field = part.describe(name)
    if isinstance(field, Number) and field.power:
        powers = [1 << n for n in range(31) if field.least <= 1 << n <= field.most]
        return st.sampled_from(powers)
    if isinstance(field, Number):
        return st.integers(field.least, field.most)
    if isinstance(field, Switch):
        return st.booleans()
    assert isinstance(field, Text)
    return text.filter(lambda value: "\0" not in value)


def parts(kind: type[Any], **given_values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any part of that kind; what cannot be together is not."""
    names = [f.name for f in fields(kind) if kind.describe(f.name)]
    choices = {name: values(kind, name) for name in names if not isinstance(kind.describe(name), Choice)}

    def make(found: dict[str, Any]) -> Any:
        try:
            return kind(**found)
        except ConfigError:
            return None

    needed = {f.name: choices.pop(f.name) for f in fields(kind) if f.default is MISSING}
    return st.fixed_dictionaries(needed, optional={**choices, **given_values}).map(make).filter(lambda part: part)


ranges = st.lists(
    st.builds(
        lambda name, start, size, symbol, kind: Range(
            name, symbol=symbol, kind=kind, **({} if symbol else {"start": start, "end": start + size})
        ),
        st.from_regex(r"[a-z0-9_][A-Za-z0-9_.$:-]{0,20}", fullmatch=True),
        st.integers(0, (1 << 31) - 1),
        st.integers(1, 1 << 31),
        text,
        st.sampled_from(["effective", "noneffective", "poll"]),
    ),
    max_size=5,
    unique_by=lambda part: part.name,
)
polls = st.lists(
    st.builds(
        lambda name, place, mask, ready: StatusRegister(
            name=name, address=0x0C00_0000 + 4 * place, mask=mask, ready=ready if ready == ANY else ready & mask
        ),
        st.sampled_from(["", "a", "uart_rx", "x.y:z"]),
        st.integers(0, 31),
        st.integers(1, 0xFFFF_FFFF),
        st.just(ANY) | st.integers(0, 0xFFFF_FFFF),
    ),
    max_size=4,
    unique_by=lambda part: part.address,
).map(tuple)
divisions = st.lists(
    st.builds(
        lambda hart, l1i, l1d, bus: Division(1 << hart, l1i=l1i, l1d=l1d, bus=bus),
        st.integers(0, 127),
        st.integers(0, 15),
        st.integers(0, 1),
        st.integers(0, 16),
    ),
    max_size=4,
    unique_by=lambda part: part.harts,
).map(tuple)
scripts = st.lists(st.builds(Script, st.integers(0, 1 << 40), text), max_size=3).map(tuple)
configs = st.builds(
    lambda **found: Config(**found),
    cores=st.integers(1, 16),
    threads=st.integers(1, 8),
    issue=st.sampled_from(["strict", "skip"]),
    boot=st.sampled_from(["first", "all"]),
    l1d=st.builds(Cache, st.sampled_from(["4KiB", 1 << 20]), st.sampled_from([1, 8]), write=st.just("through")),
    l2=st.none() | parts(L2).filter(lambda part: part.line == 32),
    uart=parts(Uart, script=scripts),
    block=parts(BlockDevice),
    smi=parts(Smi),
    interrupts=st.lists(
        st.builds(ExternalInterrupt, st.integers(4, 31), st.integers(0, 9), st.integers(1, 9), st.integers(1, 9)),
        max_size=3,
    ),
    ranges=ranges,
    polls=polls,
    divisions=divisions,
)


@given(configs)
@example(Config())
def test_a_configuration_reads_back_as_it_was_written(config: Config) -> None:
    assert Config.from_text(config.to_toml()) == config


def test_the_defaults_are_those_of_the_documentation() -> None:
    text = Path(__file__).parents[2].joinpath("docs/machine.md").read_text(encoding="utf-8")
    page = " ".join(text.split())
    config = Config()
    for name, words in {
        "pipeline.divide": "*{}* (`pipeline.divide`)",
        "pipeline.device": "*{}* (`pipeline.device`)",
        "pipeline.load": "*{}* cycles after the issue (`pipeline.load`)",
        "pipeline.multiply": "*{}* cycles after the issue (`pipeline.multiply`)",
        "pipeline.refill": "*{}* cycles (`pipeline.refill`)",
        "progress.switch": "*{}* (`progress.switch`)",
        "progress.gap": "*{}* (`progress.gap`)",
        "profile.authorise": "*{}* (`profile.authorise`)",
        "bus.line": "*{}* ticks (`bus.line`)",
        "bus.word": "*{}* tick (`bus.word`)",
        "memory.latency": "*{}* ticks (`memory.latency`)",
        "timer.divider": "`timer.divider` (*{}*)",
        "block.latency": "*{}* + *100*",
        "power.window": "`power.window` (*{}*)",
    }.items():
        part, _, field = name.partition(".")
        assert words.format(getattr(getattr(config, part), field)) in page, name
    assert (config.cores, config.threads, config.issue, config.boot) == (1, 6, "strict", "first")
    assert (config.l1d.size, config.l1d.ways, config.l1d.line, config.l1d.write) == (16 << 10, 4, 32, "back")
    assert config.l2 is None
    assert L2().hit == 10


def test_the_status_registers_are_those_of_the_devices_unless_others_are_given() -> None:
    assert Config().polls == STATUS_REGISTERS
    assert [(part.state, part.address) for part in STATUS_REGISTERS] == [
        ("poll.uart_rx", 0x1000_0004),
        ("poll.uart_tx", 0x1000_000C),
        ("poll.block", 0x1001_0010),
    ]
    (only,) = Config.from_text("[[polls]]\naddress = 0x0C00_1000\nmask = 2\nready = 2").polls
    assert (only.state, only.mask, only.ready) == ("poll.0xc001000", 2, 2)
    assert Config.from_text("polls = []").polls == ()


@given(st.sampled_from(["16KiB", "16 KiB", "16384", "16384B"]))
def test_a_size_may_be_text(words: str) -> None:
    assert Cache(words).size == 16_384


@pytest.mark.parametrize(
    ("given_text", "path", "words"),
    [
        ("corse = 2", "corse", "is not known: there are cores"),
        ("[l1d]\nwayz = 2", "l1d.wayz", "is not known: there are size"),
        ('"a b" = 1', "a b", "is not known"),
        ('"a\\tb" = 1', r"'a\tb'", "is not known"),
        ('"" = 1', "''", "is not known"),
        (f"{'x' * 80} = 1", "x" * 80, "is not known"),
        (f"{'x' * 9000} = 1", f"'{'x' * 78}…", "is not known"),
        ("cores = 0", "cores", "is 0: give a whole number from 1 to 16"),
        ("cores = true", "cores", "is true: give a whole number"),
        ('cores = "2"', "cores", "is '2': give a whole number"),
        ("threads = 9", "threads", "from 1 to 8"),
        ('issue = "fair"', "issue", """is 'fair': give "strict" or "skip\""""),
        ("[l1d]\nsize = 3000", "l1d.size", "a power of two from 64 to 4MiB"),
        ('[l1d]\nsize = "16kb"', "l1d.size", "is '16kb': give a power of two"),
        ('[l1d]\nsize = "64B"', "l1d.ways", "4 lines of 32 bytes are more than the cache's 64 bytes"),
        ("[l1d]\nline = 64", "l1i.line", "give both the same"),
        ('[l2]\nsize = "128B"', "l2.ways", "are more than"),
        ("l1d = 3", "l1d", "is 3: give a table [l1d]"),
        ("[pipeline]\nrefill = -1", "pipeline.refill", "is -1"),
        ("[pipeline]\nrefill = 2.5", "pipeline.refill", "is 2.5"),
        ("[pipeline]\nrefill = 99999999999999999999999999", "pipeline.refill", "is a number of more than 64 bits"),
        ('[memory]\nram = "2GiB"', "memory.ram", "from 64KiB to 1GiB"),
        ("[[interrupts]]\nsource = 4", "interrupts[0].at", "is missing: there must be source and at"),
        ("[[interrupts]]\nsource = 3\nat = 1", "interrupts[0].source", "from 4 to 31"),
        ("[[interrupts]]\nsource = 4\nat = 1\ncount = 2", "interrupts[0].every", "is 0, but count is 2"),
        ("interrupts = 3", "interrupts", "give tables [[interrupts]]"),
        ("interrupts = [3]", "interrupts[0]", "is 3"),
        ('[[ranges]]\nname = "x y"\nend = 2', "ranges[0].name", "give a word of letters"),
        ('[[ranges]]\nname = "x"', "ranges[0].end", "give more than start (0x0), or a symbol"),
        ('[[ranges]]\nname = "x"\nsymbol = "f"\nend = 2', "ranges[0].symbol", "give one or the other"),
        ('[[ranges]]\nname = "x"\nend = 2\n' * 2, "ranges[1].name", "as that of another"),
        ("[[polls]]\nmask = 1", "polls[0].address", "is missing: there must be address"),
        ("[[polls]]\naddress = 0x80000000", "polls[0].address", "is 0x80000000: give that of a device register"),
        ("[[polls]]\naddress = 0x10000006", "polls[0].address", "is 0x10000006: give that of a device register"),
        ("[[polls]]\naddress = 0x1002_0028", "polls[0].address", "is 0x10020028: give that of a device register"),
        ("[[polls]]\naddress = -4", "polls[0].address", "from 0x0 to 0xffffffff"),
        ("[[polls]]\naddress = 0x10000004\nmask = 0", "polls[0].mask", "from 0x1 to 0xffffffff"),
        (
            "[[polls]]\naddress = 0x10000004\nmask = 3\nready = 4",
            "polls[0].ready",
            "is 0x4, which the bits of mask (0x3) never have",
        ),
        (
            '[[polls]]\naddress = 0x10000004\nready = "all"',
            "polls[0].ready",
            """is 'all': give "any", or a whole number from 0x0 to 0xffffffff""",
        ),
        ("[[polls]]\naddress = 0x10000004\nready = true", "polls[0].ready", "is true"),
        ('[[polls]]\naddress = 0x10000004\nname = "a b"', "polls[0].name", "give a word of letters"),
        ("[[polls]]\naddress = 0x10000004\n" * 2, "polls[1].address", "as that of another"),
        (
            "".join(f"[[polls]]\naddress = {0x0C00_0000 + 4 * n}\n" for n in range(8)),
            "polls",
            "has 8 names: give 7 at most; registers may share one",
        ),
        (
            "".join(f'[[polls]]\nname = "a"\naddress = {0x0C00_0000 + 4 * n}\n' for n in range(33)),
            "polls",
            "has 33 entries: give 32 at most",
        ),
        ("polls = 3", "polls", "give tables [[polls]]"),
        ("[[divisions]]\nl1d = 1", "divisions[0].harts", "is missing: there must be harts"),
        ("[[divisions]]\nharts = 0", "divisions[0].harts", "from 0x1 to"),
        (
            "[[divisions]]\nharts = 1\nl1d = 16",
            "divisions[0].l1d",
            "is 0x10, and the cache has 4 ways: give a bit for each",
        ),
        ("[[divisions]]\nharts = 1\nl1i = 0x100000000", "divisions[0].l1i", "from 0x0 to 0xffffffff"),
        ("[[divisions]]\nharts = 1\nl2 = 1", "divisions[0].l2", "there is no [l2]: leave it out"),
        ("[[divisions]]\nharts = 1\nbus = 17", "divisions[0].bus", "from 0 to 16"),
        ("[[divisions]]\nharts = 3\n[[divisions]]\nharts = 6", "divisions[1].harts", "is 0x6, with harts of another"),
        ("[bus]\nwindow = 15", "bus.window", "from 16 to 1000000"),
        ("[smi]\nat = 1\nticks = 10\nevery = 10", "smi.every", "more than the 10 ticks"),
        ("[block]\nsave = true", "block.save", "nothing to write back to"),
        ('[[uart.script]]\ntext = "x"', "uart.script[0].at", "is missing"),
        ("[uart]\nscript = 3", "uart.script", "give tables"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_its_path(given_text: str, path: str, words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        Config.from_text(given_text, "my.toml")
    message = str(caught.value)
    assert message.startswith(f"my.toml: {path} ")
    assert words in message
    assert "\n" not in message


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
@example("a = " + "[" * 5000)
@example("a = 1" + "0" * 5000)
def test_any_text_is_a_configuration_or_one_sentence(given_text: str) -> None:
    given_or_sentence(lambda: Config.from_text(given_text))


@given(
    st.dictionaries(
        st.sampled_from([f.name for f in fields(Config)]),
        st.none() | st.integers() | st.text() | st.booleans() | st.lists(st.integers()) | st.dictionaries(text, text),
    )
)
def test_any_keywords_are_a_configuration_or_one_sentence(found: dict[str, Any]) -> None:
    given_or_sentence(lambda: Config.of(**found))


def test_a_keyword_that_there_is_not_is_a_sentence() -> None:
    with pytest.raises(HeadwayError, match="core is not known: there are cores, threads"):
        Machine(core=2)
    with pytest.raises(HeadwayError, match="l1d is 3: give a Cache"):
        Machine(l1d=3)


def test_a_machine_takes_a_configuration_and_changes_to_it() -> None:
    assert Machine(Config(cores=3), threads=2).config == Config(cores=3, threads=2)
    assert Config().with_values(cores=None) == Config()


def test_a_configuration_cannot_be_changed_once_it_is_checked() -> None:
    with pytest.raises(AttributeError):
        Cache().ways = 3  # type: ignore[misc]
    with pytest.raises(ConfigError):
        replace(Cache(), ways=3)


def test_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"hello")
    (tmp_path / "disk").write_bytes(b"x" * 513)
    file = tmp_path / "my.toml"
    file.write_text('[uart]\ninput = "in.txt"\nstart = 7\n[[uart.script]]\nat = 3\ntext = "é"\n[block]\nimage = "disk"')
    config = Config.from_toml(file)
    assert config.uart.arrivals() == ((3, "é".encode()), (7, b"hello"))
    assert config.block.contents() == b"x" * 513 + bytes(511)
    assert Config.from_text(config.to_toml()) == config


@pytest.mark.parametrize("name", ["missing", ".", "/dev/zero", "a\0b"])
def test_a_file_that_cannot_be_read_is_a_sentence(name: str) -> None:
    with pytest.raises(HeadwayError):
        Config.from_toml(name)
    if "\0" not in name:
        with pytest.raises(HeadwayError, match=r"uart\.input"):
            Uart(input=name).arrivals()


def test_every_key_says_what_it_is() -> None:
    lines = [line for line in Config(l2=L2()).to_toml().splitlines() if " = " in line]
    assert len(lines) > 40
    assert all("  # " in line for line in lines)
    assert isinstance(Cache.describe("size"), Size)


def test_what_is_absent_is_shown_with_every_key_and_can_be_added() -> None:
    text = re.sub(r"(?m)^# (?=\[|\w+ = )", "", Config().to_toml())
    found = Config.from_text(text)
    assert found.l2 == L2()
    for part in (found.uart.script, found.trace.triggers, found.trace.moves, found.trace.actions, found.divisions):
        assert len(part) == 1
    assert {"first", "watch", "count", "states", "to", "when", "mark", "reload"} <= set(re.findall(r"(?m)^\w+", text))
