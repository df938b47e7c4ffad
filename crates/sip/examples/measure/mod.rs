//! The measuring loop of `call_bench` and `register_bench`: one operation after another, step by step.

use std::time::Duration;

use sim::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// The time between two operations at 2,000 a second.
pub(crate) const PAUSE: Duration = Duration::from_micros(500);
/// Operations before the first measurement: for longer than a transaction lingers, so that as many end as begin.
const WARM_UP: u64 = 80_000;
const BATCHES: usize = 15;
/// Operations of a batch.
const BATCH: u64 = 4_000;

/// Prints the nanoseconds of each step, the least of all batches, and the bytes that one operation allocates. `operate` performs
/// one operation, named by its number, and returns the time of each step. A number on the command line instead of [`WARM_UP`]
/// warms up less, for a slow look at it (`valgrind --tool=callgrind`).
pub(crate) fn report<const N: usize>(
    operation: &str,
    steps: [&str; N],
    mut operate: impl FnMut(u64) -> [Duration; N],
) {
    let mut number = 0;
    let mut batch = |size: u64| {
        let mut spent = [Duration::ZERO; N];
        for _ in 0..size {
            number += 1;
            let times = operate(number);
            spent.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        }
        spent
    };
    let warm_up = std::env::args().nth(1).map_or(WARM_UP, |number| number.parse().unwrap());
    batch(warm_up);
    let size = warm_up.min(BATCH);
    let mut least = [Duration::MAX; N];
    for _ in 0..BATCHES {
        for (least, spent) in least.iter_mut().zip(batch(size)) {
            *least = spent.min(*least);
        }
    }
    let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9 / size as f64;
    for (step, time) in steps.iter().zip(least) {
        println!("{step:<16}{:>8.0} ns", nanoseconds(time));
    }
    println!("{operation:<16}{:>8.0} ns", nanoseconds(least.iter().sum()));
    let before = ALLOCATOR.total();
    batch(1);
    println!("{} bytes allocated {operation}, with those of its datagrams", ALLOCATOR.total() - before);
}

/// The time that `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time; nothing links it")]
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}
