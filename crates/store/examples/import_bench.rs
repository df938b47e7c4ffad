//! Measures the speed of an import of accounts, and the room that they take.
//!
//!     cargo run --release -p store --example import_bench -- 1000000 [shuffled [batch]]

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails should stop")]

use std::io::{self, Read};
use std::time::Instant;

use store::{Admin, ImportOptions, Sqlite};

/// Makes the CSV while it is read, so that the disk holds only the record.
struct Accounts {
    count: u64,
    next: u64,
    shuffled: bool,
    line: Vec<u8>,
    at: usize,
}

impl Read for Accounts {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            if self.next == self.count {
                return Ok(0);
            }
            // An odd multiplier permutes the 32-bit numbers.
            let number = if self.shuffled { (self.next * 2_654_435_761) & 0xffff_ffff } else { self.next };
            let line = format!("{number:010}@example.com,secret-{number},Subscriber {number}\n");
            self.line.extend_from_slice(line.as_bytes());
            self.next += 1;
        }
        let count = out.len().min(self.line.len() - self.at);
        out[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: u64 = args.next().map_or(1_000_000, |count| count.parse().unwrap());
    let shuffled = args.next().is_some_and(|order| order == "shuffled");
    let batch: usize = args.next().map_or(store::limits::IMPORT_BATCH, |batch| batch.parse().unwrap());
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("bench.db");
    let store = Sqlite::open(&path).unwrap().for_import();
    let mut admin = Admin::new(&store).unwrap();
    let input = Accounts { count, next: 0, shuffled, line: Vec::new(), at: 0 };
    let options = ImportOptions { batch, ..ImportOptions::new(None, stdx::Instant::from_unix_seconds(1)) };
    let start = Instant::now();
    let mut last = start;
    let imported = admin
        .import(input, &options, &mut |progress, _| {
            if progress.imported.total() % 1_000_000 == 0 {
                println!(
                    "{:>10} accounts, last million {:.1} s",
                    progress.imported.total(),
                    last.elapsed().as_secs_f64()
                );
                last = Instant::now();
            }
        })
        .unwrap();
    let seconds = start.elapsed().as_secs_f64();
    drop(admin);
    let bytes = std::fs::metadata(&path).unwrap().len();
    #[expect(clippy::cast_precision_loss, reason = "figures for reading")]
    let (rate, each) = (imported.total() as f64 / seconds, bytes as f64 / imported.total() as f64);
    println!(
        "{} accounts in {seconds:.1} s: {rate:.0} a second, {each:.0} bytes each on disk",
        imported.total()
    );
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    println!("{}", io.lines().find(|line| line.starts_with("write_bytes")).unwrap());
}
