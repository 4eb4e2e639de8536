//! Regions from Rust, by the plain functions of `functions.c`. This needs Rust 1.63 or later, which Debian 12 has.
//!
//!     cc -O2 -c -I"$(python3 -c 'import headway; print(headway.get_include())')" functions.c -o functions.o
//!     ar rcs libfunctions.a functions.o
//!     rustc -O --edition 2021 -L . -l static=functions regions.rs
//!     headway stat -- ./regions
//!
//! In a crate, `build.rs` does the first two with the `cc` crate. A region belongs to a thread, so a guard is not `Send`; in
//! async code it must not live across an `.await`, after which the task may be on another thread.

use std::ffi::CString;
use std::marker::PhantomData;
use std::os::raw::c_char;

#[derive(Clone, Copy)]
pub struct Tag(u32);

extern "C" {
    fn headway_tag(name: *const c_char) -> u32;
    fn headway_poll_tag(name: *const c_char) -> u32;
    fn headway_state_tag(name: *const c_char) -> u32;
    fn headway_set_noneffective(tag: u32);
    fn headway_clear_noneffective();
}

impl Tag {
    /// The state `noneffective.NAME`; keep it, looking it up takes a while.
    pub fn noneffective(name: &str) -> Tag {
        let name = c_string(name);
        Tag(unsafe { headway_tag(name.as_ptr()) })
    }
    /// The state `poll.NAME`.
    pub fn poll(name: &str) -> Tag {
        let name = c_string(name);
        Tag(unsafe { headway_poll_tag(name.as_ptr()) })
    }
    /// The state `user.NAME`: progress, with a name.
    pub fn state(name: &str) -> Tag {
        let name = c_string(name);
        Tag(unsafe { headway_state_tag(name.as_ptr()) })
    }
    /// This thread is in the region until the guard is dropped.
    pub fn enter(self) -> Region {
        unsafe { headway_set_noneffective(self.0) };
        Region(PhantomData)
    }
}

/// Panics if the name has a NUL in it.
fn c_string(name: &str) -> CString {
    CString::new(name).expect("a name without NUL")
}

#[must_use = "the region ends when this is dropped"]
pub struct Region(PhantomData<*const ()>);

impl Drop for Region {
    fn drop(&mut self) {
        unsafe { headway_clear_noneffective() }
    }
}

fn work(n: u64) {
    for i in 0..n {
        unsafe { std::ptr::read_volatile(&i) }; // keeps the loop; std::hint::black_box needs Rust 1.66
    }
}

fn main() {
    let parse = Tag::noneffective("parse");
    let ring = Tag::poll("ring");
    let draw = Tag::state("draw");
    for _ in 0..500 {
        {
            let _region = parse.enter();
            work(400_000);
        }
        {
            let _region = ring.enter();
            work(100_000);
        }
        let _region = draw.enter();
        work(500_000);
    }
}
