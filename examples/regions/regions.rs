//! Regions from Rust, by the plain functions of `functions.c`.
//!
//!     cc -O2 -c -I"$(python3 -c 'import headway; print(headway.get_include())')" functions.c -o functions.o
//!     rustc -O --edition 2021 -C link-arg=functions.o regions.rs
//!     headway stat -- ./regions
//!
//! In a crate, `build.rs` does the first with the `cc` crate. A region belongs to a thread, so a guard is not `Send`; in
//! async code it must not live across an `.await`, after which the task may be on another thread.

use std::ffi::CStr;
use std::hint::black_box;
use std::marker::PhantomData;

#[derive(Clone, Copy)]
pub struct Tag(u32);

extern "C" {
    fn headway_tag(name: *const std::ffi::c_char) -> u32;
    fn headway_poll_tag(name: *const std::ffi::c_char) -> u32;
    fn headway_state_tag(name: *const std::ffi::c_char) -> u32;
    fn headway_set_noneffective(tag: u32);
    fn headway_clear_noneffective();
}

impl Tag {
    /// The state `noneffective.NAME`; keep it, looking it up takes a while.
    pub fn noneffective(name: &CStr) -> Tag {
        Tag(unsafe { headway_tag(name.as_ptr()) })
    }
    /// The state `poll.NAME`.
    pub fn poll(name: &CStr) -> Tag {
        Tag(unsafe { headway_poll_tag(name.as_ptr()) })
    }
    /// The state `user.NAME`: progress, with a name.
    pub fn state(name: &CStr) -> Tag {
        Tag(unsafe { headway_state_tag(name.as_ptr()) })
    }
    /// This thread is in the region until the guard is dropped.
    pub fn enter(self) -> Region {
        unsafe { headway_set_noneffective(self.0) };
        Region(PhantomData)
    }
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
        black_box(i);
    }
}

fn main() {
    let parse = Tag::noneffective(c"parse");
    let ring = Tag::poll(c"ring");
    let draw = Tag::state(c"draw");
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
