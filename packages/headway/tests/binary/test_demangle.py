"""Names of C++ and Rust, some of them meant to do harm."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.binary.demangle import demangled, names_of, short_name


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int>>::push_back(int const&)"),
        ("_Z3foov", "foo()"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        (
            "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0123456789abcdefE",
            "<alloc::string::String as core::fmt::Write>::write_str",
        ),
        ("main", "main"),
        ("_Z", "_Z"),
        ("_ZZZZ", "_ZZZZ"),
        # Rust's newer names: the examples of RFC 2603, and such as rustc's tests have
        ("_RNvC6_123foo3bar", "123foo::bar"),
        ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
        ("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"),
        (
            "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
            "alloc::alloc::box_free<dyn alloc::boxed::FnBox<(), Output = ()>>",
        ),
        ("_RNvXs5_NtCs7fWm_4core3fmtlNtB5_7Display3fmt", "<i32 as core::fmt::Display>::fmt"),
        ("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of<usize>"),
        (
            "_RINvC1a1fAhj4_TlmERShQfPcOdFUKCyEuE",
            'a::f<[u8; 4], (i32, u32), &[u8], &mut f32, *const char, *mut f64, unsafe extern "C" fn(u64)>',
        ),
        ("_RINvC1a1fKb1_Kanff_KpE", "a::f<true, -255, _>"),
        ("_RNvC1au8gdel_5qa", "a::gödel"),
        ("_R", "_R"),
        ("_RNvB_", "_RNvB_"),  # refers to itself
        ("do_work.constprop.0", "do_work.constprop.0"),
    ],
)
def test_names_as_they_were_written(mangled: str, name: str) -> None:
    assert demangled(mangled) == name


@given(
    st.text("_ZNSKILEPRTvijb0123456789foo$.@", max_size=80).map(lambda text: f"_Z{text}")
    | st.text("_NvCsMXYIBKLATRFDEGpu0123456789abZ", max_size=80).map(lambda text: f"_R{text}")
)
@example("_Z" + "N" * 1990)
@example("_R" + "I" * 900 + "C1a" + "uE" * 500)
@example("_RNvMC1aT" + "TuuuuuuuuE" + "".join("TB_B_B_B_B_E" for _ in range(100)) + "E1f")
@example("_Z" + "P" * 1990 + "i")
@example("_Z1fI" + "I" * 900 + "E" * 900)
def test_no_name_fails_or_grows_without_bound(name: str) -> None:
    assert len(demangled(name)) < 40_000


def test_a_short_name_that_stands_for_an_endless_one_is_left_as_it_is() -> None:
    # Each pair refers to the pair before it, twice: 2^60 characters.
    pairs = "St4pairIiiE" + "".join(f"St4pairI{ref}{ref}E" for ref in ("S_", *(f"S{n:X}_" for n in range(30))))
    name = f"_Z1f{pairs}"
    assert len(demangled(name)) <= max(len(name), 40_000)


# ---- the names by which a user may mean a function ----


@pytest.mark.parametrize(
    ("symbol", "names", "short"),
    [
        ("plain", {"plain"}, "plain"),
        (
            "_ZN5scene6Canvas4drawEi",
            {"scene::Canvas::draw", "scene::Canvas::draw(int)"},
            "scene::Canvas::draw",
        ),
        ("_ZNK5scene6Canvas5shownEv", {"scene::Canvas::shown", "scene::Canvas::shown() const"}, "scene::Canvas::shown"),
        ("_ZN5scene6scaledIiEET_S1_", {"scene::scaled", "scene::scaled<int>"}, "scene::scaled"),
        (
            "_ZN5scene12_GLOBAL__N_16hiddenEi",
            {"scene::(anonymous namespace)::hidden", "scene::hidden"},
            "scene::hidden",
        ),
        ("_ZN5scene6CanvasclEi", {"scene::Canvas::operator()"}, "scene::Canvas::operator()"),
        ("_ZN5scene6CanvaseqERKS0_", {"scene::Canvas::operator=="}, "scene::Canvas::operator=="),
        ("_ZN5scene6Canvas4drawEi.constprop.0", {"scene::Canvas::draw"}, "scene::Canvas::draw"),
        ("_ZN7drawing5scene4draw17h0123456789abcdefE", {"drawing::scene::draw"}, "drawing::scene::draw"),
        ("_RNvNtCs1234_7drawing5scene4draw", {"drawing::scene::draw"}, "drawing::scene::draw"),
        (
            "_RNvMs_CskY3fMgHh7Ek_7drawingNtB4_6Canvas4draw",
            {"<drawing::Canvas>::draw", "drawing::Canvas::draw"},
            "drawing::Canvas::draw",
        ),
    ],
)
def test_a_function_is_meant_by_its_symbol_and_by_its_demangled_name(symbol: str, names: set[str], short: str) -> None:
    assert {symbol, *names} <= names_of(symbol)
    assert short_name(symbol) == short
    assert short in names_of(symbol)


@given(st.text(alphabet="_ZNKE0123456789abcIiES1_().<> ", max_size=60))
def test_any_symbol_has_names(symbol: str) -> None:
    for name in (symbol, f"_Z{symbol}", f"_R{symbol}"):
        assert name in names_of(name)
        assert short_name(name) in names_of(name)
