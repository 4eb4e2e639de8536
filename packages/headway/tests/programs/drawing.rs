// Functions of Rust whose names are mangled, and a panic that passes through one of them.
use std::hint::black_box;
use std::panic;
use std::time::{Duration, Instant};

mod scene {
    use super::*;

    #[inline(never)]
    pub fn draw(length: Duration) -> Duration {
        if black_box(length) == Duration::ZERO {
            panic!("nothing to draw");
        }
        let start = Instant::now();
        while start.elapsed() < length {}
        start.elapsed()
    }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let mut inside = Duration::ZERO;
    let mut caught = 0;
    for i in 0..200u32 {
        inside += scene::draw(Duration::from_micros(200));
        if i % 10 == 0 {
            caught += panic::catch_unwind(|| scene::draw(Duration::ZERO)).is_err() as i32;
            inside += scene::draw(Duration::from_micros(200));
        }
    }
    println!("{} {}", inside.as_nanos(), caught);
}
