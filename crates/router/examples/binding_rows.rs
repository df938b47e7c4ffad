//! Rows of bindings for PostgreSQL's COPY (`bucket, aor, seq, epoch, written_at, record`), as a node writes them: accounts `user{n}` of a
//! domain, registered for six hours at one host. `bench/farm/accounts` loads so what would take an hour to register.
//!
//!     cargo run --release -p router --example binding_rows -- example.test 127.0.0.1:5070 20000 5000000
//!
//! prints those of the accounts 20,000 to 4,999,999.

#![expect(clippy::disallowed_methods, reason = "the rows end so long after now")]

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _, stdout};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cluster::Bucket;
use router::{Binding, Contact, encode_record};
use stdx::Instant;

const GRANTED: u32 = 6 * 3600;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [domain, host, first, end] = &arguments[..] else {
        return Err("usage: binding_rows DOMAIN CONTACT_HOST:PORT FIRST END".into());
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut out = BufWriter::with_capacity(1 << 20, stdout().lock());
    let mut line = String::new();
    for (seq, number) in (first.parse::<u64>()?..end.parse()?).enumerate() {
        let aor = format!("user{number}@{domain}");
        let record = encode_record(&aor, &[binding(number, host, now)]);
        line.clear();
        let _ = write!(line, "{}\t{aor}\t{seq}\t0\t{}\t\\\\x", Bucket::of(&aor).number(), now * 1_000_000);
        line.push_str(&stdx::hex::encode(&record));
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(out.flush()?)
}

fn binding(number: u64, host: &str, now: u64) -> Binding {
    let contact = Contact {
        uri: format!("sip:user{number}@{host}").into(),
        q: 1_000,
        expires: GRANTED,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "SIPp".into(),
        received: None,
    };
    let expires_at = Instant::from_unix_seconds(now) + Duration::from_secs(GRANTED.into());
    Binding { contact, expires_at, call_id: format!("{number}-1@127.0.0.1").into(), cseq: 2 }
}
