//! `kill -9` at any moment loses nothing that was acknowledged (issue: "a test does it").

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use stdx::Instant;
use store::{
    BindingWrite, Completions, Loaded, Service, ServiceOptions, Sqlite, Store, StoreError, Ticket, Write,
    WriteDone,
};

const CHILD: &str = "BELFRY_STORE_TEST_CHILD";

/// Says on standard output what is acknowledged, and lets the next one in.
struct Tell {
    free: std::sync::mpsc::SyncSender<()>,
}

impl Completions for Tell {
    fn complete(&self, _sink: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        let mut out = std::io::stdout().lock();
        for (id, result) in done {
            result.unwrap();
            writeln!(out, "acknowledged {id}").unwrap();
            self.free.send(()).unwrap();
        }
        out.flush().unwrap();
    }

    fn loaded(&self, _sink: u16, _done: Vec<(u64, Result<Loaded, StoreError>)>) {}
}

/// Not a test of its own: what `kill_9_loses_nothing_acknowledged` runs in another process.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (free, ready) = std::sync::mpsc::sync_channel(64);
    (0..32).for_each(|_| free.send(()).unwrap());
    let completions: Arc<dyn Completions> = Arc::new(Tell { free });
    let store = Sqlite::open(path).unwrap();
    let service = Service::start(&store, &completions, &ServiceOptions::default()).unwrap();
    for id in 1_u64.. {
        ready.recv().unwrap();
        let write = Write::Binding(BindingWrite {
            bucket: 0,
            aor: "".into(),
            epoch: 0,
            written_at: Instant::from_micros(id),
            replaces: None,
            empties: false,
            record: id.to_be_bytes().repeat(40).into(),
        });
        service.write(write, Ticket { sink: 0, id }).unwrap();
    }
}

fn start(path: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The ids it acknowledged, killed after at least so many.
fn acknowledged(mut child: Child, enough: usize) -> Vec<u64> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut ids, mut line, mut killed) = (Vec::new(), String::new(), false);
    while lines.read_line(&mut line).unwrap() > 0 {
        let word = line.rsplit_once("acknowledged ").map(|(_, id)| id);
        // A line cut by the kill was not fully said.
        if let Some(id) = word.and_then(|id| id.strip_suffix('\n')) {
            ids.push(id.parse().unwrap());
        }
        line.clear();
        if ids.len() >= enough && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    assert!(killed, "the child ended by itself");
    child.wait().unwrap();
    ids
}

#[test]
fn kill_9_loses_nothing_acknowledged() {
    // The scheduler decides where in a group, a commit or a checkpoint the kill falls; several lives of one
    // file make it fall in different places, and every life must find the earlier ones' rows.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("belfry.db");
    let mut expected = 0;
    for enough in [1, 40, 333, 1_200, 2_500] {
        let ids = acknowledged(start(&path), enough);
        let last = ids.iter().max().copied().unwrap();
        assert_eq!(u64::try_from(ids.len()).unwrap(), last, "acknowledged in order, none left out");
        let mut lives = vec![Vec::new()];
        let mut reader = Sqlite::open(&path).unwrap().reader().unwrap();
        reader
            .replay(&mut |row| {
                let (id, _) = row.record.split_first_chunk().unwrap();
                let id = u64::from_be_bytes(*id);
                assert_eq!(row.record, id.to_be_bytes().repeat(40));
                if id == 1 {
                    lives.push(Vec::new());
                }
                lives.last_mut().unwrap().push(id);
            })
            .unwrap();
        expected += 1;
        assert_eq!(lives.len() - 1, expected);
        let this = lives.last().unwrap();
        assert!(this.iter().copied().eq(1..=this.len() as u64), "in order, no holes");
        assert!(this.len() as u64 >= last, "{last} was acknowledged, {} are there", this.len());
    }
}
