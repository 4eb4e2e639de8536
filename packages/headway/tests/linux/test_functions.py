"""The user's words lead to the right place in the right file, or to one sentence that says what to write instead."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS, Compile, built_once, compiler

from headway.binary.elf import ElfFile
from headway.errors import SelectionError
from headway.linux.options import MarkedFunctions
from headway.linux.regions import functions, libraries
from headway.linux.regions.functions import Probe, sets

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and the library beside it that it is linked with."""
    folder = tmp_path_factory.mktemp("built")
    shared = ["-shared", "-fPIC", "-Wl,-soname,libjson.so.1", "-o", str(folder / "libjson-1.2.so")]
    subprocess.run([compiler(), "-O1", *shared, PROGRAMS / "json_library.c"], check=True)
    (folder / "libjson.so.1").symlink_to("libjson-1.2.so")
    found = ["-Wl,-rpath,$ORIGIN", "-o", str(folder / "prog"), str(PROGRAMS / "json_user.c")]
    subprocess.run([compiler(), "-O1", *found, folder / "libjson-1.2.so"], check=True)
    return folder


@pytest.fixture
def process(built: Path) -> Iterator[int]:
    with subprocess.Popen([built / "prog"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started.pid
        started.kill()


def offset(path: Path, name: str) -> int:
    with ElfFile(str(path)) as image:
        (address,) = {symbol.address for symbol in image.symbols() if symbol.name == name and symbol.defined}
        found = image.file_offset(address)
    assert found is not None
    return found


def resolve(words: Iterable[str], **known: Any) -> tuple[Probe, ...]:
    return functions.resolve([MarkedFunctions(each) for each in words], **known)


def same_file(probe: Probe, path: Path) -> bool:
    return os.path.samefile(probe.path, path)


# ---- what is found ----


@pytest.mark.parametrize("name", ["libjson.so.1", "libjson-1.2.so", "libjson*"])
def test_a_library_of_a_process_is_known_by_its_file_and_by_its_own_name(built: Path, process: int, name: str) -> None:
    (probe,) = resolve([f"{name}:json_parse"], pids=[process])
    assert same_file(probe, built / "libjson-1.2.so")
    assert (probe.offset, probe.name) == (offset(built / "libjson-1.2.so", "json_parse"), "json_parse")
    assert probe.state == "noneffective.json_parse"


@pytest.mark.parametrize("name", ["libjson.so.1", "libjson"])
def test_a_library_of_a_command_is_found_without_running_it(built: Path, name: str) -> None:
    (probe,) = resolve([f"{name}:json_parse"], command=[str(built / "prog")])
    assert same_file(probe, built / "libjson-1.2.so")


def test_the_program_itself_is_known_by_name_and_path(
    built: Path, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built)
    ways = [
        resolve(["prog:work"], pids=[process]),
        resolve(["prog:work"], command=["./prog"]),
        resolve(["./prog:work"], command=["./prog"]),
        resolve(["./prog:work"], pids=[process]),
        resolve(["./prog:work"]),
        resolve(["prog:work"], command=["prog"], environment={"PATH": str(built)}),
    ]
    for found in ways:
        (probe,) = found
        assert same_file(probe, built / "prog")
        assert probe.offset == offset(built / "prog", "work")


def test_a_script_and_env_lead_to_the_program_that_runs(built: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{built}/prog -x\n")
    script.chmod(0o755)
    for command in ([str(script)], ["env", "A=b", str(built / "prog")]):
        (probe,) = resolve(["libjson:json_parse"], command=command)
        assert same_file(probe, built / "libjson-1.2.so")


def test_a_preloaded_library_and_a_search_path_count(built: Path, tmp_path: Path) -> None:
    library = str(built / "libjson-1.2.so")
    (probe,) = resolve(["libjson.so.1:other"], command=["true"], environment={**os.environ, "LD_PRELOAD": library})
    assert same_file(probe, built / "libjson-1.2.so")
    copy = tmp_path / "prog"
    shutil.copy(built / "prog", copy)  # $ORIGIN is another now
    environment = {**os.environ, "LD_LIBRARY_PATH": f"/nowhere:{built}"}
    assert resolve(["libjson.so.1:other"], command=[str(copy)], environment=environment)


def test_a_pattern_means_all_that_it_fits_and_each_place_once(built: Path) -> None:
    found = resolve(["libjson.so.1:json_*", "libjson.so.1:json_parse"], command=[str(built / "prog")])
    assert [probe.name for probe in found] == ["json_parse", "json_print"], "json_write is json_print"


def test_the_set_malloc_is_libc_s_for_a_program_and_for_a_process(built: Path, process: int) -> None:
    for found in (resolve(["malloc"]), resolve(["malloc"], pids=[process]), resolve(["malloc"], command=["/bin/true"])):
        assert {"malloc", "calloc", "realloc", "free"} <= {probe.name for probe in found}
        assert len({(probe.path, probe.offset) for probe in found}) == len(found)


def test_a_program_that_brings_its_own_malloc_has_that_one_marked(compile_c: Compile) -> None:
    program = compile_c("own_malloc")
    files = {probe.path for probe in resolve(["malloc"], command=[str(program)]) if probe.name == "malloc"}
    assert os.path.realpath(program) in files
    assert len(files) == 2


def test_the_dynamic_linker_agrees_about_what_will_be_loaded(built: Path) -> None:
    ldd = shutil.which("ldd")
    if ldd is None:
        pytest.skip("needs ldd")
    told = subprocess.run([ldd, built / "prog"], capture_output=True, text=True, check=True).stdout
    paths = {os.path.realpath(word) for word in told.split() if word.startswith("/")}
    found = {os.path.realpath(path) for path in libraries.loaded_by(str(built / "prog"), {})}
    assert found == paths | {os.path.realpath(built / "prog")}


def test_the_tables_of_sets_are_as_they_should_be() -> None:
    for name, each in sets().items():
        assert ":" not in name
        assert each.about
        assert each.libraries
        assert len(set(each.functions)) == len(each.functions) <= functions.MAX_FUNCTIONS


def test_a_state_has_the_kind_and_the_name_that_it_was_given(built: Path) -> None:
    command = [str(built / "prog")]
    (poll,) = functions.resolve([MarkedFunctions("libjson.so.1:json_parse", "poll")], command=command)
    assert poll.state == "poll.json_parse"
    named = functions.resolve([MarkedFunctions("libjson.so.1:json_*", "user", "parse")], command=command)
    assert {probe.state for probe in named} == {"user.parse"}
    assert len({probe.name for probe in named}) == len(named)


def test_a_function_is_in_one_state(built: Path) -> None:
    twice = [MarkedFunctions("libjson:json_parse"), MarkedFunctions("libjson:json_parse", "poll", option="--poll")]
    with pytest.raises(SelectionError, match=r"^--poll: json_parse is marked as noneffective\.json_parse already"):
        functions.resolve(twice, command=[str(built / "prog")])


# ---- what is refused, and in which words ----


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("malok", "did you mean malloc?"),
        ("", "the sets are: malloc"),
        (":f", "write it like"),
        ("libjson.so.1:", "write it like"),
        ("libjson.so.1:a\nb", "write it like"),
        ("libjson.so.1:Json::parse", "no function 'Json::parse': nm -DC lists"),
        ("libjsn.so.1:json_parse", "did you mean libjson.so.1"),
        ("libjson.so.1:json_pars", "did you mean json_parse"),
        ("libjson.so.1:jason_*", "nm -D lists them"),
        ("libjson.so.1:answer", "not a function"),
        ("libjson.so.1:other@V1", "no other of version V1"),
        ("prog:json_parse", "only calls json_parse"),
        ("/no/where.so:f", "there is no file /no/where.so"),
        ("/etc/passwd:f", "not an ELF file"),
        ("/dev/null:f", "a device"),
        ("/tmp:f", "a directory"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_says_what_to_do(built: Path, text: str, words: str) -> None:
    with pytest.raises(SelectionError) as caught:
        resolve([text], command=[str(built / "prog")])
    assert words in str(caught.value)
    assert str(caught.value).startswith("--noneffective: ")
    assert "\n" not in str(caught.value)


def test_what_a_process_has_not_loaded_is_not_taken_from_elsewhere(process: int) -> None:
    with pytest.raises(SelectionError, match=f"process {process} has loaded no library"):
        resolve(["libz.so.1:inflate"], pids=[process])


def test_a_process_that_is_gone_has_loaded_nothing() -> None:
    with pytest.raises(SelectionError, match="no library"):
        resolve(["libc.so.6:qsort"], pids=[2**22 + 1])


def test_a_function_chosen_at_start_is_refused() -> None:
    try:
        with ElfFile("/lib/x86_64-linux-gnu/libc.so.6") as image:
            assert any(symbol.name == "strlen" for symbol in image.symbols())
    except Exception:
        pytest.skip("needs glibc on x86-64")
    with pytest.raises(SelectionError, match="IFUNC"):
        resolve(["libc.so.6:strlen"])


def test_a_pattern_that_fits_too_much_is_refused(built: Path) -> None:
    with pytest.raises(SelectionError, match="use a narrower pattern"):
        resolve(["libc.so.6:*"], command=[str(built / "prog")])


# ---- C++ and Rust ----


@pytest.fixture(scope="module")
def drawing(shared_folder: Path) -> Path:
    """A C++ program with overloads, templates, a switch, tail calls and functions that throw."""
    options = ["-O2", "-pthread"]
    if os.uname().machine == "x86_64":  # without an instruction before a jump, which some distributions' compilers add
        options.append("-fcf-protection=none")
    return built_once(shared_folder, [compiler("c++"), *options, PROGRAMS / "drawing.cc"], "drawing")


def names(found: Iterable[Probe]) -> set[str]:
    return {probe.name for probe in found}


@pytest.mark.parametrize(
    ("words", "symbols"),
    [
        ("scene::Canvas::draw", {"_ZN5scene6Canvas4drawEi", "_ZN5scene6Canvas4drawEd"}),
        ("scene::Canvas::draw(int)", {"_ZN5scene6Canvas4drawEi"}),
        ("_ZN5scene6Canvas4drawEd", {"_ZN5scene6Canvas4drawEd"}),
        ("scene::Canvas::*", {"_ZN5scene6Canvas4drawEi", "_ZN5scene6Canvas4drawEd", "_ZNK5scene6Canvas5shownEv"}),
        ("scene::scaled", {"_ZN5scene6scaledIiEET_S1_", "_ZN5scene6scaledIdEET_S1_"}),
        ("scene::scaled<int>", {"_ZN5scene6scaledIiEET_S1_"}),
        ("scene::(anonymous namespace)::hidden", {"_ZN5scene12_GLOBAL__N_16hiddenEi"}),
        ("plain", {"plain"}),
    ],
)
def test_a_function_of_cpp_is_found_by_its_symbol_and_by_its_name(drawing: Path, words: str, symbols: set[str]) -> None:
    found = resolve([f"{drawing}:{words}"])
    assert names(found) == symbols
    for probe in found:
        assert probe.ways_out is not None, "no return probe, through which an exception could not pass"
        assert probe.ways_out
        assert probe.offset not in dict(probe.ways_out)


def test_overloads_share_a_state_that_has_the_functions_name(drawing: Path) -> None:
    assert {p.state for p in resolve([f"{drawing}:scene::Canvas::draw"])} == {"noneffective.scene::Canvas::draw"}
    assert {p.state for p in resolve([f"{drawing}:scene::scaled"])} == {"noneffective.scene::scaled"}


def test_the_ways_out_of_a_function_are_its_returns_and_tail_calls(drawing: Path) -> None:
    objdump = shutil.which("objdump")
    if objdump is None or os.uname().machine != "x86_64":
        pytest.skip("needs objdump, and x86-64")
    listed = subprocess.run([objdump, "-d", "--no-show-raw-insn", drawing], capture_output=True, text=True, check=True)
    with ElfFile(str(drawing)) as image:
        sizes = {s.address: (s.name, s.size) for s in image.symbols() if s.defined}
    for probe in resolve([f"{drawing}:scene::*"]):
        with ElfFile(str(drawing)) as image:
            (start,) = [address for address, (name, _) in sizes.items() if name == probe.name]
            end = start + sizes[start][1]
            assert image.file_offset(start) == probe.offset
        code = [line.split("\t") for line in listed.stdout.splitlines() if line.count("\t")]
        inside = [(int(at.strip(" :"), 16), words) for at, words, *_ in code if start <= int(at.strip(" :"), 16) < end]
        returns = {at for at, words in inside if words.split()[0] in ("ret", "repz", "retq")}
        assert probe.ways_out is not None
        found = {offset - probe.offset + start for offset, _ in probe.ways_out if offset >= probe.offset}
        assert returns <= found
        for at, words in inside:
            if words.startswith("jmp ") and "*" not in words and at in found:
                assert not start <= int(words.split()[1], 16) < end, "a tail call"


@pytest.mark.parametrize("words", ["scene::Canvas::drawn", "scene::nothing", "scene::Canvas::draw(float)"])
def test_a_name_of_cpp_that_is_not_there_is_refused_in_one_sentence(drawing: Path, words: str) -> None:
    with pytest.raises(SelectionError, match="nm -DC") as caught:
        resolve([f"{drawing}:{words}"])
    assert "\n" not in str(caught.value)


def test_a_function_that_only_jumps_is_refused_and_left_out_of_a_pattern(drawing: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("what the compiler makes of it is known for x86-64")
    with pytest.raises(SelectionError, match="only jumps to another function"):
        resolve([f"{drawing}:forward"])
    assert names(resolve([f"{drawing}:[fp][ol][ra]*[nd]"])) == {"plain"}


def test_a_function_of_rust_is_found_by_its_name(tmp_path: Path) -> None:
    program = rust(tmp_path)
    (probe,) = resolve([f"{program}:drawing::scene::draw"])
    assert probe.name.startswith("_ZN")
    assert probe.state == "noneffective.drawing::scene::draw"
    assert probe.ways_out


def rust(folder: Path) -> Path:
    rustc = compiler("rustc")
    if subprocess.run([rustc, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("needs rustc, which is there and does not work")
    program = folder / "drawing"
    options = ["-O", "--edition", "2021", "-C", "symbol-mangling-version=legacy", "-Z", "unstable-options"]
    source = str(PROGRAMS / "drawing.rs")
    for chosen in (options[:3], options):
        done = subprocess.run([rustc, *chosen, "-o", program, source], capture_output=True, text=True, check=False)
        if not done.returncode and b"17h" in program.read_bytes():
            return program
    pytest.skip(f"this rustc does not mangle names as headway reads them: {done.stderr[:200]}")


def test_functions_of_go_programs_are_refused(built: Path, tmp_path: Path) -> None:
    objcopy = shutil.which("objcopy")
    if objcopy is None:
        pytest.skip("needs objcopy (binutils)")
    note = tmp_path / "note"
    note.write_bytes(b"\xff Go buildinf:")
    subprocess.run([objcopy, f"--add-section=.go.buildinfo={note}", built / "prog", tmp_path / "go"], check=True)
    with pytest.raises(SelectionError, match="a Go program"):
        resolve([f"{tmp_path}/go:work"])


@given(st.text(max_size=40))
def test_any_text_is_resolved_or_refused_in_one_sentence(text: str) -> None:
    words = ""
    found: tuple[Probe, ...] = ()
    try:
        found = resolve([text], command=["/bin/true"])
    except SelectionError as error:
        words = str(error)
    assert bool(words) != bool(found)
    assert "\n" not in words


@given(st.binary(max_size=400), st.integers(0, 100))
def test_a_damaged_cache_of_the_dynamic_linker_is_read_as_far_as_it_goes(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, count: int
) -> None:
    path = tmp_path_factory.mktemp("cache") / "ld.so.cache"
    path.write_bytes(b"glibc-ld.so.cache1.1" + count.to_bytes(4, "little") + bytes(24) + noise)
    for name, files in libraries.cached(path).items():
        assert name
        assert all(file.startswith("/") for file in files)
