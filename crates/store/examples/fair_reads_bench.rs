//! Measures how long a sign-in waits for its rows while another account reads the largest possible pages, as
//! fast as it may.
//!
//!     cargo run --release -p store --example fair_reads_bench

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails should stop")]

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use store::xmpp::{ItemQuery, RosterRow, XmppRead, XmppWrite};
use store::{
    Admin, Completions, Loaded, Read, Service, ServiceOptions, Sqlite, StoreError, Ticket, Write, WriteDone,
};

/// Reads of the one account that are under way or wait: a host lets eight of each address go to the store.
const FLOOD: u64 = 8;
const SIGN_INS: u64 = 500;
/// Tickets of sign-ins.
const SIGN_IN: u16 = 1;

struct Sinks(SyncSender<(u16, u64)>);

impl Completions for Sinks {
    fn complete(&self, _: u16, _: Vec<(u64, Result<WriteDone, StoreError>)>) {}

    fn loaded(&self, sink: u16, done: Vec<(u64, Result<Loaded, StoreError>)>) {
        for (id, result) in done {
            result.unwrap();
            self.0.send((sink, id)).unwrap();
        }
    }
}

fn items() -> Read {
    let query = Box::new(ItemQuery { max: 1_000, ..ItemQuery::default() });
    Read::Xmpp(XmppRead::Items { owner: "mallory@x".into(), node: "n".into(), query })
}

/// Milliseconds that the median, the 99th of a hundred and the slowest sign-in waited; and pages of the flood.
fn measure(store: &Sqlite, floods: bool) -> ([f64; 3], u64) {
    let (sender, answers) = sync_channel(10_000);
    let sinks: Arc<dyn Completions> = Arc::new(Sinks(sender));
    let service = Service::start(store, &sinks, &ServiceOptions::default()).unwrap();
    for id in 0..if floods { FLOOD } else { 0 } {
        service.read(items(), Ticket { sink: 0, id }).unwrap();
    }
    let (mut waited, mut pages) = (Vec::new(), 0);
    for id in 0..SIGN_INS {
        let user = format!("user{}@x", id % 100).into();
        let start = Instant::now();
        service
            .read(Read::Xmpp(XmppRead::User { user, nodes: &["a"] }), Ticket { sink: SIGN_IN, id })
            .unwrap();
        loop {
            match answers.recv_timeout(Duration::from_secs(60)).unwrap() {
                (SIGN_IN, _) => break,
                (sink, id) => {
                    pages += 1;
                    service.read(items(), Ticket { sink, id }).unwrap();
                }
            }
        }
        waited.push(start.elapsed().as_secs_f64() * 1e3);
    }
    waited.sort_by(f64::total_cmp);
    ([waited[waited.len() / 2], waited[waited.len() * 99 / 100], waited[waited.len() - 1]], pages)
}

fn main() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let store = Sqlite::open(dir.path().join("bench.db")).unwrap();
    let mut admin = Admin::new(&store).unwrap();
    for number in 0..1_000_u32 {
        let (id, item) = (number.to_string().into(), Some("x".repeat(100 << 10).into()));
        let at = stdx::Instant::from_micros(number.into());
        let item = XmppWrite::Item { owner: "mallory@x".into(), node: "n".into(), id, at, item, keep: 1_000 };
        admin.write(&Write::Xmpp(item)).unwrap();
    }
    for number in 0..10_000_u32 {
        let (user, contact) = (format!("user{}@x", number % 100).into(), format!("c{number}@x").into());
        let item = Some(Box::new(RosterRow { subscription: "both".into(), ..RosterRow::default() }));
        admin.write(&Write::Xmpp(XmppWrite::Roster { user, contact, item, version: 1 })).unwrap();
    }
    println!("{:>12} {:>9} {:>9} {:>9} {:>9}", "flood", "p50 ms", "p99 ms", "max ms", "pages");
    for (name, floods) in [("none", false), ("one account", true)] {
        let ([half, most, slowest], pages) = measure(&store, floods);
        println!("{name:>12} {half:>9.2} {most:>9.2} {slowest:>9.2} {pages:>9}");
    }
}
