"""No eBPF object uses a feature that is newer than the oldest kernel that headway supports.

The tests read the features from the objects (bpf_uses.py) and compare them with a table of what each version of Linux
has (kernel_features.toml), for every architecture. Whether the verifier accepts the programs, only a kernel can tell.
"""

from __future__ import annotations

import copy
import importlib
import os
import platform
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.linux.bpf.programs.compile import ARCHITECTURES

from .bpf_building import build, build_text
from .bpf_objects import BpfObject
from .bpf_stack import MAX_FRAMES, MAX_STACK, deepest, longest
from .bpf_uses import uses
from .btf import Types
from .kernel_features import Table, objections, stale, version

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[2]
SOURCES = sorted(each for folder in ("src", "tests", "benchmarks") for each in (ROOT / folder).rglob("*.bpf.c"))
BTF = Path("/sys/kernel/btf/vmlinux")
CONTENT = tomllib.loads(Path(__file__).with_name("kernel_features.toml").read_text())
TABLE = Table(CONTENT)
NEWEST = (99,)

Objects = Mapping[str, Mapping[Path, BpfObject]]
Make = Callable[..., BpfObject]


def some_of(kinds: Mapping[str, object]) -> list[str]:
    """Every third of them where not all are to be tried: an object is compiled for each."""
    return list(kinds)[:: 3 if FEW else 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where objects are made."""
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="module")
def objects(folder: Path) -> Objects:
    """Every object of the project, by architecture and source."""
    return {machine: {source: build(source, folder, machine) for source in SOURCES} for machine in ARCHITECTURES}


@pytest.fixture
def make(folder: Path) -> Make:
    """Compile a made-up object."""
    return lambda text, architecture="x86_64": build_text(text, folder, architecture)


def installed(where: Traversable) -> Iterator[tuple[str, bytes]]:
    """Every eBPF object among the files of a package, whatever it is called: name and content."""
    for each in where.iterdir():
        if each.is_dir():
            yield from installed(each)
        else:
            with each.open("rb") as file:
                if (head := file.read(20))[:4] == b"\x7fELF" and head[18:20] == b"\xf7\x00":  # EM_BPF
                    yield each.name, head + file.read()


# ---- the objects of the project ----


def test_there_is_a_floor_for_each_architecture() -> None:
    assert TABLE.floor.keys() == ARCHITECTURES.keys()


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_no_object_needs_a_newer_kernel_than_the_floor(objects: Objects, source: Path, machine: str) -> None:
    said = objections(objects[machine][source], machine, TABLE)
    assert not said, "\n".join(said)


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_no_chain_of_calls_needs_more_stack_than_there_is(objects: Objects, source: Path, machine: str) -> None:
    of = objects[machine][source]
    needs = {name: deepest(of, program) for name, program in of.programs.items()}
    assert {name: found for name, found in needs.items() if found[0] > MAX_STACK} == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_no_chain_of_calls_is_longer_than_the_kernel_takes(objects: Objects, source: Path, machine: str) -> None:
    of = objects[machine][source]
    chains = [longest(of, program) for program in of.programs.values()]
    assert [chain for chain in chains if len(chain) > MAX_FRAMES] == []


def test_every_installed_object_has_a_source_and_is_for_the_floor() -> None:
    found = dict(installed(resources.files("headway")))
    assert found.keys() == {source.name.removesuffix("c") + "o" for source in SOURCES if ROOT / "src" in source.parents}
    for of in map(BpfObject, found.values()):
        said = objections(of, platform.machine(), TABLE)
        assert not said, "\n".join(said)
        for program in of.programs.values():
            assert deepest(of, program)[0] <= MAX_STACK, program.name
            assert len(longest(of, program)) <= MAX_FRAMES, program.name


@pytest.mark.exhaustive
def test_every_optional_feature_is_used_and_has_a_probe(objects: Objects) -> None:
    assert stale({machine: by_source.values() for machine, by_source in objects.items()}, TABLE) == []
    for each in TABLE.optional:
        assert each.why
        assert bool(each.off) != bool(each.programs), f"{each.feature} is optional by settings or by programs"
        module, _, name = each.probe.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
    keys = [(each.feature, machine) for each in TABLE.optional for machine in each.architectures]
    assert len(keys) == len(set(keys))
    assert {machine for _, machine in keys} <= ARCHITECTURES.keys()


@pytest.mark.exhaustive
def test_the_features_of_the_main_object_are_seen(objects: Objects) -> None:
    for by_source in objects.values():
        main = by_source[next(source for source in SOURCES if source.name == "progress.bpf.c")]
        found = {use.feature for use in uses(main)}
        assert found >= {("helpers", "1"), ("attach", "tp_btf"), ("attach", "iter/task"), ("map_types", "29")}
        assert found >= {("map_flags", "1024"), ("instructions", "32-bit jump"), ("programs", "global function")}


@pytest.mark.exhaustive
@given(st.data())
@settings(max_examples=10)
def test_an_older_kernel_lacks_at_least_as_much(objects: Objects, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from([(of, name) for name, each in objects.items() for of in each.values()]))
    older, newer = sorted(data.draw(st.tuples(*[st.tuples(st.integers(3, 7), st.integers(0, 20))] * 2)))
    without = Table({**CONTENT, "optional": []})
    lacking = [{said.partition(" is in ")[0] for said in objections(*one, without, floor)} for floor in (older, newer)]
    assert lacking[1] <= lacking[0]
    assert objections(*one, without, NEWEST) == []
    assert objections(*one, without, (3, 18)) != []


# ---- made-up objects ----

PROGRAM = 'SEC("tp_btf/sched_switch") int program(u64 *ctx) { %s; return 0; }\n'
LOOP = """
static long (*const repeat)(u32, void *, void *, u64) = (void *)181;
static int body(u32 i, void *context) { return i > 3; }
"""
SETTINGS = 'const volatile struct { u32 other; u32 has_it; } settings SEC(".rodata.settings");\n'

NEWER = {
    "a helper": (LOOP + PROGRAM % "repeat(5, body, NULL, 0)", "the helper “bpf_loop”", "5.17", ""),
    "a helper that was there, but not for such programs": (
        PROGRAM % "return bpf_get_attach_cookie(ctx)",
        "the helper “bpf_get_attach_cookie”",
        "6.10",
        "",
    ),
    "an atomic instruction whose result is used": (
        "u64 sum;\n" + PROGRAM % "return __sync_fetch_and_add(&sum, ctx[0])",
        "the instruction “atomic fetch”",
        "5.18",
        "aarch64",
    ),
    "an atomic instruction other than adding": (
        "u64 sum;\n" + PROGRAM % "__atomic_fetch_or(&sum, ctx[0], __ATOMIC_RELAXED)",
        "the instruction “atomic and, or, xor”",
        "5.18",
        "aarch64",
    ),
    "comparing and exchanging": (
        "u64 sum;\n" + PROGRAM % "__sync_val_compare_and_swap(&sum, 1, ctx[0])",
        "the instruction “atomic exchange”",
        "5.18",
        "aarch64",
    ),
    "a trampoline": (
        'SEC("fentry/do_exit") int program(u64 *ctx) { (void)ctx; return 0; }',
        "the type of program “fentry”",
        "6.0",
        "aarch64",
    ),
    "a way to attach": (
        'SEC("uprobe.multi") int program(void *ctx) { (void)ctx; return 0; }',
        "the type of program “uprobe.multi”",
        "6.6",
        "",
    ),
    "a type of map": (
        'struct { UINT(type, 31); UINT(max_entries, 4096); } ring SEC(".maps");\n'
        + PROGRAM % "return bpf_map_lookup_elem(&ring, ctx) != NULL",
        "the map type “USER_RINGBUF”",
        "6.1",
        "",
    ),
    "a function of the kernel": (
        'extern void bpf_rcu_read_lock(void) __attribute__((section(".ksyms")));\n' + PROGRAM % "bpf_rcu_read_lock()",
        "the kernel function “bpf_rcu_read_lock”",
        "6.2",
        "",
    ),
}

NEWER |= {
    "a callback": (LOOP + PROGRAM % "repeat(5, body, NULL, 0)", "the construct “callback”", "5.13", ""),
    "a pointer that is passed to a global function": (
        "__attribute__((noinline)) u64 first(u64 *numbers) { return numbers ? *numbers : 0; }\n"
        + PROGRAM % "u64 number = ctx[0]; return first(&number)",
        "the construct “global function with a pointer”",
        "5.13",
        "",
    ),
    "a global function": (
        "__attribute__((noinline)) u64 more(u64 number) { return number + 1; }\n" + PROGRAM % "return more(ctx[0])",
        "the construct “global function”",
        "5.6",
        "",
    ),
    "a tail call beside a function": (
        "static long (*const go)(void *, void *, u32) = (void *)12;\n"
        "struct { UINT(type, 3); UINT(max_entries, 1); UINT(key_size, 4); UINT(value_size, 4); } programs "
        'SEC(".maps");\n'
        "NOINLINE u64 more(u64 number) { return number + number; }\n" + PROGRAM % "go(ctx, &programs, more(ctx[0]))",
        "the construct “tail call in a program with functions”",
        "6.0",
        "aarch64",
    ),
    "a loop": (
        PROGRAM % "u64 n = 0; for (u32 i = 0; i < 100; i++) { n ^= i; OPAQUE(n); } return n",
        "the construct “loop”",
        "5.3",
        "",
    ),
    "a variable": ("u64 sum;\n" + PROGRAM % "sum += ctx[0]", "the construct “global data”", "5.2", ""),
    "a variable of the kernel": (
        'extern const int runqueues __attribute__((section(".ksyms")));\n' + PROGRAM % "return (u64)&runqueues >> 8",
        "the construct “variable of the kernel”",
        "5.10",
        "",
    ),
    "a long program": (
        "u64 sum;\n#define MORE(x) x x x x x x x x x x x x x x x x\n" + PROGRAM % "MORE(MORE(MORE(sum++; ORDER();)))",
        "the construct “more than 4096 instructions”",
        "5.2",
        "",
    ),
    "a comparison of 32 bits": (
        PROGRAM % "return (u32)ctx[0] > 77 ? ctx[1] : ctx[2]",
        "the instruction “32-bit jump”",
        "5.1",
        "",
    ),
}

UNKNOWN = {
    "a helper": (
        "static long (*const magic)(void) = (void *)999;\n" + PROGRAM % "return magic()",
        "the helper “999”",
    ),
    "a call that no verifier knows": (
        "long (*called)(void);\n" + PROGRAM % "return called()",
        "the instruction “call through a register”",
    ),
    "a way to attach": ('SEC("magic/trick") int program(void *c) { return !c; }', "the type of program “magic”"),
    "an iterator": ('SEC("iter/magic") int program(void *c) { return !c; }', "the type of program “iter/magic”"),
    "a map flag": (
        "struct { UINT(type, MAP_ARRAY); UINT(map_flags, 1 << 28); UINT(max_entries, 1); TYPE(key, u32); "
        'TYPE(value, u64); } numbers SEC(".maps");\n' + PROGRAM % "return bpf_map_lookup_elem(&numbers, ctx) != NULL",
        "the map flag “268435456”",
    ),
    "a tag": (
        'u32 tagged __attribute__((btf_decl_tag("magic")));\n' + PROGRAM % "return tagged",
        "the BTF tag “magic”",
    ),
    "a function that returns nothing": (
        "u64 sum;\n__attribute__((noinline)) void add(u64 what) { sum += what; }\n" + PROGRAM % "add(ctx[0])",
        "the construct “global function that returns no number”",
    ),
}


@pytest.mark.parametrize("kind", some_of(NEWER))
def test_a_newer_feature_is_refused_below_its_version(make: Make, kind: str) -> None:
    text, name, since, only = NEWER[kind]
    major, minor = version(since)
    for machine in ARCHITECTURES:
        of = make(text, machine)
        older = (major, minor - 1) if minor else (major - 1, 99)
        said = [each for each in objections(of, machine, TABLE, older) if name in each]
        if only in ("", machine):
            assert len(said) == 1
            assert f"since {since} " in said[0]
            assert "it is used by" in said[0]
        else:
            assert said == []
        assert not any(name in each for each in objections(of, machine, TABLE, version(since)))


@pytest.mark.parametrize("kind", some_of(UNKNOWN))
def test_a_feature_that_is_not_listed_is_refused_for_every_version(make: Make, kind: str) -> None:
    text, name = UNKNOWN[kind]
    (said,) = objections(make(text), "x86_64", TABLE, NEWEST)
    assert name in said
    assert "is not in kernel_features.toml" in said


def test_types_that_libbpf_replaces_are_accepted(make: Make) -> None:
    of = make("struct { float f; double d; } numbers;\n" + PROGRAM % "return sizeof(numbers)")
    assert any(use.feature == ("types", "16") for use in uses(of))
    assert objections(of, "x86_64", TABLE, version("5.12")) == []


def test_an_atomic_addition_without_a_result_is_accepted(make: Make) -> None:
    text = "u64 sum;\n" + PROGRAM % "__atomic_fetch_add(&sum, ctx[0], __ATOMIC_RELAXED)"
    for machine in ARCHITECTURES:
        assert objections(make(text, machine), machine, TABLE, version("5.5")) == []


# ---- what is optional ----


def optional(feature: str, **how: object) -> Table:
    """The table with only this feature optional, on every architecture."""
    each = {"feature": feature, "architectures": [*ARCHITECTURES], "probe": "os:uname", "why": "it is a test", **how}
    return Table({**copy.deepcopy(CONTENT), "optional": [each], "floor": dict.fromkeys(ARCHITECTURES, "5.15")})


GUARDED = {
    "where it is used": PROGRAM % "if (settings.has_it) repeat(5, body, NULL, 0)",
    "with more beside it": PROGRAM % "if (settings.has_it && settings.other && ctx[0] > 7) repeat(5, body, NULL, 0)",
    "by leaving early": PROGRAM % "if (!settings.has_it) return 1; if (ctx[0]) repeat(5, body, NULL, 0)",
    "around a function that uses it": (
        "NOINLINE u64 deeper(u64 n) { repeat(n, body, NULL, 0); return n; }\n"
        + PROGRAM % "return settings.has_it ? deeper(ctx[0]) : 0"
    ),
    "in the function that uses it": (
        "NOINLINE u64 deeper(u64 n) { if (settings.has_it == 1) repeat(n, body, NULL, 0); return n; }\n"
        + PROGRAM % "return deeper(ctx[0])"
    ),
}
NOT_GUARDED = {
    "at all": PROGRAM % "repeat(5, body, NULL, 0)",
    "the right way round": PROGRAM % "if (!settings.has_it) repeat(5, body, NULL, 0)",
    "by this setting": PROGRAM % "if (settings.other) repeat(5, body, NULL, 0)",
    "every time": PROGRAM % "if (settings.has_it) repeat(5, body, NULL, 0); if (ctx[1]) repeat(6, body, NULL, 0)",
    "on every way": PROGRAM % "if (settings.has_it || ctx[0]) repeat(5, body, NULL, 0)",
    "in every program": (
        PROGRAM % "if (settings.has_it) repeat(5, body, NULL, 0)"
        + 'SEC("perf_event") int other(void *ctx) { (void)ctx; repeat(6, body, NULL, 0); return settings.has_it; }'
    ),
    "by what the kernel at hand decides": (
        "struct cfs_rq___new { u32 magic; } CORE;\n"
        + PROGRAM % "struct cfs_rq___new *q = (void *)ctx; if (!FIELD_EXISTS(q->magic)) repeat(5, body, NULL, 0)"
    ),
    "by what can change": "u32 has_it;\n" + PROGRAM % "if (has_it) repeat(5, body, NULL, 0)",
}


@pytest.mark.parametrize("how", some_of(GUARDED))
def test_a_newer_feature_is_accepted_where_a_setting_switches_it_off(make: Make, how: str) -> None:
    of = make(SETTINGS + LOOP + GUARDED[how])
    assert objections(of, "x86_64", optional("helpers.181", off={"has_it": 0})) == []
    assert len(objections(of, "x86_64", optional("helpers.181", off={"has_it": 1}))) == 1
    assert len(objections(of, "x86_64", Table({**CONTENT, "optional": []}), version("5.15"))) == 1


@pytest.mark.parametrize("how", some_of(NOT_GUARDED))
def test_a_newer_feature_is_refused_where_the_setting_does_not_switch_it_off(make: Make, how: str) -> None:
    of = make(SETTINGS + LOOP + NOT_GUARDED[how])
    (said,) = objections(of, "x86_64", optional("helpers.181", off={"has_it": 0}))
    assert "“bpf_loop”" in said
    assert "is not switched off by has_it = 0" in said


def test_an_unknown_setting_switches_nothing_off(make: Make) -> None:
    of = make(SETTINGS + LOOP + GUARDED["where it is used"])
    (said,) = objections(of, "x86_64", optional("helpers.181", off={"had_it": 0}))
    assert "there is no setting had_it" in said
    (said,) = objections(
        make(LOOP + PROGRAM % "repeat(5, body, NULL, 0)"), "x86_64", optional("helpers.181", off={"a": 0})
    )
    assert "there is no setting settings" in said


def test_a_feature_that_is_refused_in_unreached_code_cannot_be_switched_off(make: Make) -> None:
    text = (
        'extern void bpf_rcu_read_lock(void) __attribute__((section(".ksyms")));\n'
        + PROGRAM % "if (settings.has_it) bpf_rcu_read_lock()"
    )
    said = objections(
        make(SETTINGS + text), "x86_64", optional("kernel_functions.bpf_rcu_read_lock", off={"has_it": 0})
    )
    assert any("refuses it even in code that has_it = 0 switches off" in each for each in said)


def test_only_the_programs_that_are_left_out_may_use_a_newer_feature(make: Make) -> None:
    text = LOOP + PROGRAM % "repeat(5, body, NULL, 0)"
    assert objections(make(text), "x86_64", optional("helpers.181", programs=["program"])) == []
    other = 'SEC("perf_event") int other(void *ctx) { (void)ctx; repeat(6, body, NULL, 0); return 0; }'
    (said,) = objections(make(text + other), "x86_64", optional("helpers.181", programs=["program"]))
    assert "used by other (" in said


def test_an_optional_feature_that_no_object_uses_is_reported(make: Make) -> None:
    table = optional("helpers.181", off={"has_it": 0})
    plain, guarded = make(PROGRAM % "return 1"), make(SETTINGS + LOOP + GUARDED["where it is used"])
    assert stale({"x86_64": [plain, guarded], "aarch64": [guarded]}, table) == []
    (said,) = stale({"x86_64": [plain], "aarch64": [guarded]}, table)
    assert "x86_64: nothing uses helpers.181" in said
    everywhere = {name: [make(PROGRAM % "return bpf_ktime_get_ns() > 5")] for name in ARCHITECTURES}
    assert len(stale(everywhere, optional("helpers.5", off={"has_it": 0}))) == 2, "the floor has it"


def test_a_feature_that_is_optional_elsewhere_is_refused_here(make: Make) -> None:
    of = make(SETTINGS + LOOP + GUARDED["where it is used"])
    elsewhere = optional("helpers.181", off={"has_it": 0}, architectures=["aarch64"])
    assert objections(of, "aarch64", elsewhere) == []
    assert len(objections(of, "x86_64", elsewhere)) == 1


# ---- the table ----


def test_every_entry_of_the_table_is_complete() -> None:
    for table, entries in CONTENT.items():
        for key, entry in entries.items() if table not in ("floor", "optional") else ():
            described = [
                entry,
                *(entry[name] for name in ARCHITECTURES if name in entry),
                *entry.get("in", {}).values(),
            ]
            for each in described:
                assert re.fullmatch(r"\d+\.\d+", each["since"]), key
                assert re.fullmatch("[0-9a-f]{12}", each["commit"]), key
            allowed = {"name", "since", "commit", "reached", "sanitised", "in", *ARCHITECTURES}
            assert entry.keys() <= allowed, key
            assert all(version(each["since"]) >= version(entry["since"]) for each in described), key
    assert {int(key) for key in CONTENT["helpers"]} == {*range(1, 212)}
    for feature in TABLE.features():
        assert all(TABLE.needs(feature, machine) is not None for machine in ARCHITECTURES)


def test_numbers_and_names_are_those_of_the_running_kernel() -> None:
    if not os.access(BTF, os.R_OK):
        pytest.skip(f"needs the types of the running kernel ({BTF})")
    types = Types(BTF.read_bytes())
    running = version(".".join(re.findall(r"\d+", platform.release())[:2]))
    for table, enumeration, prefix in (
        ("helpers", "bpf_func_id", "BPF_FUNC_"),
        ("map_types", "bpf_map_type", "BPF_MAP_TYPE_"),
    ):
        there = types.values(enumeration)
        for key, entry in CONTENT[table].items():
            if version(entry["since"]) <= running:
                assert there[prefix + entry["name"].removeprefix("bpf_")] == int(key)
