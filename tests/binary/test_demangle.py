"""Names of C++ and Rust, some of them meant to do harm."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.binary.demangle import demangled


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
        ("_RNvC6_123foo3bar", "_RNvC6_123foo3bar"),  # Rust's v0: left as it is
        ("do_work.constprop.0", "do_work.constprop.0"),
    ],
)
def test_names_as_they_were_written(mangled: str, name: str) -> None:
    assert demangled(mangled) == name


@given(st.text("_ZNSKILEPRTvijb0123456789foo$.@", max_size=80).map(lambda text: f"_Z{text}"))
@example("_Z" + "N" * 1990)
@example("_Z" + "P" * 1990 + "i")
@example("_Z1fI" + "I" * 900 + "E" * 900)
def test_no_name_fails_or_grows_without_bound(name: str) -> None:
    assert len(demangled(name)) < 40_000


def test_a_short_name_that_stands_for_an_endless_one_is_left_as_it_is() -> None:
    # Each pair refers to the pair before it, twice: 2^60 characters.
    pairs = "St4pairIiiE" + "".join(f"St4pairI{ref}{ref}E" for ref in ("S_", *(f"S{n:X}_" for n in range(30))))
    name = f"_Z1f{pairs}"
    assert len(demangled(name)) <= max(len(name), 40_000)
