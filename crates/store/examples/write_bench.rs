//! What a durable binding costs: CPU of the writing thread and time, by size of group.
//!
//!     cargo run --release -p store --example write_bench

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails should stop")]

use std::time::Instant;

use store::{Sqlite, Store, Write};

/// Nanoseconds of CPU this thread has used (Linux, `schedstat`).
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn main() {
    println!("{:>6} {:>9} {:>16} {:>16}", "group", "bindings", "CPU us/binding", "wall us/binding");
    for (group, rounds) in [(1, 1_000), (10, 1_000), (100, 1_000), (1_000, 200)] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let store = Sqlite::open(dir.path().join("bench.db")).unwrap();
        let mut writer = store.writer().unwrap();
        let binding = |number: u64| Write::Binding {
            written_at: stdx::Instant::from_micros(number),
            record: vec![7; 300].into(),
        };
        let writes: Vec<Write> = (0..group).map(binding).collect();
        let (start, before) = (Instant::now(), cpu());
        for _ in 0..rounds {
            assert!(writer.write_group(&writes).iter().all(Result::is_ok));
        }
        let bindings = group * rounds;
        #[expect(clippy::cast_precision_loss, reason = "figures for reading")]
        let (used, wall) = (
            (cpu() - before) as f64 / 1e3 / bindings as f64,
            start.elapsed().as_secs_f64() * 1e6 / bindings as f64,
        );
        println!("{group:>6} {bindings:>9} {used:>16.2} {wall:>16.2}");
    }
}
