//! Measures the cost of a durable binding, by size of group and by the order in which addresses refresh: CPU
//! of the writing thread, time, bytes to the disk, rows and bytes of the file, and how long a start reads.
//! Rows that a refresh makes dead are deleted meanwhile, as in a node.
//!
//!     cargo run --release -p store --example write_bench -- [addresses] [refreshes]

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails should stop")]
#![expect(clippy::cast_precision_loss, reason = "figures for reading")]

use std::time::Instant;

use store::{BindingWrite, Sqlite, Store, Write, WriteDone, Writer};

#[derive(Clone, Copy, Debug)]
enum Order {
    /// The order of registration.
    Same,
    /// The order of registration, each moved by up to a tenth of the interval.
    Jitter,
    Random,
}

struct Bench {
    writer: Box<dyn Writer>,
    rows: Vec<Option<i64>>,
    seed: u64,
}

impl Bench {
    fn refresh(&mut self, addresses: &[usize]) {
        let group: Vec<Write> = addresses.iter().map(|address| binding(self.rows[*address])).collect();
        for (address, done) in addresses.iter().zip(self.writer.write_group(&group)) {
            let Ok(WriteDone::Logged { seq }) = done else { panic!("{done:?}") };
            self.rows[*address] = Some(seq);
        }
    }

    fn order(&mut self, order: Order) -> Vec<usize> {
        let addresses = self.rows.len();
        let spread = match order {
            Order::Same => 1,
            Order::Jitter => addresses as u64 / 10 + 1,
            Order::Random => u64::MAX / 2,
        };
        let mut keyed: Vec<_> = (0..addresses).map(|n| (n as u64 + self.random() % spread, n)).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, n)| n).collect()
    }

    /// xorshift64.
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }
}

fn binding(replaces: Option<i64>) -> Write {
    Write::Binding(BindingWrite {
        bucket: 0,
        aor: "user0000@example.c".into(),
        epoch: 0,
        written_at: stdx::Instant::from_unix_seconds(1_800_000_000),
        replaces,
        empties: false,
        record: vec![7; 230].into(),
    })
}

/// Nanoseconds of CPU this thread has used (Linux, `schedstat`).
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Bytes this process has sent to the disk.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let addresses: usize = arguments.next().unwrap_or(1_000_000);
    let refreshes: usize = arguments.next().unwrap_or(addresses / 5);
    println!("{addresses} addresses, one refresh of each and then {refreshes} more, which are measured");
    println!(
        "{:>7} {:>6} {:>8} {:>8} {:>7} {:>10} {:>10} {:>9} {:>9}",
        "order", "group", "CPU us", "wall us", "p99 ms", "bytes/row", "rows", "file MB", "start s"
    );
    for order in [Order::Same, Order::Jitter, Order::Random] {
        for group in [30, 300] {
            measure(addresses, refreshes, order, group);
        }
    }
}

fn measure(addresses: usize, refreshes: usize, order: Order, group: usize) {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("bench.db");
    let store = Sqlite::open(&path).unwrap();
    let mut bench = Bench { writer: store.writer().unwrap(), rows: vec![None; addresses], seed: 1 << 40 | 1 };
    for _ in 0..2 {
        let all = bench.order(order);
        all.chunks(20_000).for_each(|chunk| bench.refresh(chunk));
    }
    let some = bench.order(order);
    let (start, used, sent, mut times) = (Instant::now(), cpu(), written(), Vec::new());
    for chunk in some[..refreshes.min(addresses)].chunks(group) {
        let begin = Instant::now();
        bench.refresh(chunk);
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let count = refreshes.min(addresses) as f64;
    let (used, wall) = ((cpu() - used) as f64 / 1e3 / count, start.elapsed().as_secs_f64() * 1e6 / count);
    let sent = (written() - sent) as f64 / count;
    times.sort_by(f64::total_cmp);
    let start = Instant::now();
    let rows = store.reader().unwrap().replay(&mut |_| ()).unwrap();
    println!(
        "{:>7} {group:>6} {used:>8.2} {wall:>8.2} {:>7.1} {sent:>10.0} {rows:>10} {:>9.0} {:>9.2}",
        format!("{order:?}"),
        times[times.len() * 99 / 100],
        std::fs::metadata(&path).unwrap().len() as f64 / 1e6,
        start.elapsed().as_secs_f64(),
    );
}
