//! The memory of an idle session of TLS 1.3, by part, beside rustls's connection with buffers: exact, as nothing else of the process allocates meanwhile.
//!
//!     cargo run --release -p tls-session --example session_memory
#![expect(unsafe_code, reason = "an allocator that counts, and mallinfo2 of the C library")]
#![expect(clippy::disallowed_methods, reason = "a measurement has a clock")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tls_session::{ExporterSecrets, TlsSession};

const SESSIONS: usize = 500;
const NAME: &str = "localhost";

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes in use: asked for by Rust, and given out by the C library's allocator, whose own heads are among them.
#[derive(Clone, Copy)]
struct Used {
    rust: usize,
    all: usize,
}

fn used() -> Used {
    // SAFETY: it reads the allocator's counters.
    let all = unsafe { libc::mallinfo2() };
    Used { rust: LIVE.load(Relaxed), all: all.uordblks + all.hblkhd }
}

/// One direction of a connection, shared by its two ends.
#[derive(Default)]
struct Pipe(RefCell<VecDeque<u8>>);

struct End<'a>(&'a Pipe, &'a Pipe);

impl Read for End<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut from = self.0.0.borrow_mut();
        if from.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { from.read(bytes) }
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One end of a session, as both libraries have it.
trait Peer {
    /// Takes what has come and sends what is to be sent; true past the handshake.
    fn step(&mut self, end: &mut End<'_>) -> io::Result<bool>;

    fn say(&mut self, end: &mut End<'_>, bytes: &[u8]) -> io::Result<()>;

    /// Takes what is taken once after the handshake.
    fn settle(&mut self) {}
}

impl Peer for TlsSession {
    fn step(&mut self, end: &mut End<'_>) -> io::Result<bool> {
        while self.read(end, &mut [0; 512]).is_ok_and(|count| count > 0) {}
        self.flush(end)?;
        Ok(!self.is_handshaking())
    }

    fn say(&mut self, end: &mut End<'_>, bytes: &[u8]) -> io::Result<()> {
        self.write(end, bytes).map(drop)
    }

    fn settle(&mut self) {
        drop(self.take_exporter());
    }
}

impl Peer for rustls::Connection {
    fn step(&mut self, end: &mut End<'_>) -> io::Result<bool> {
        while self.read_tls(end).is_ok_and(|count| count > 0) {
            self.process_new_packets().map_err(io::Error::other)?;
            while self.reader().read(&mut [0; 512]).is_ok_and(|count| count > 0) {}
        }
        while self.wants_write() {
            self.write_tls(end)?;
        }
        Ok(!self.is_handshaking())
    }

    fn say(&mut self, end: &mut End<'_>, bytes: &[u8]) -> io::Result<()> {
        self.writer().write_all(bytes)?;
        self.step(end).map(drop)
    }
}

/// The bytes of one more session that has shaken hands and has carried a message each way.
fn measure(
    mut kept: impl FnMut() -> io::Result<Box<dyn Peer>>,
    mut other: impl FnMut() -> io::Result<Box<dyn Peer>>,
) -> io::Result<Used> {
    let mut all = Vec::with_capacity(SESSIONS + 1);
    let mut before = used();
    for number in 0..=SESSIONS {
        let (mut one, mut two) = (kept()?, other()?);
        let (there, back) = (Pipe::default(), Pipe::default());
        loop {
            let is_one = one.step(&mut End(&back, &there))?;
            let is_two = two.step(&mut End(&there, &back))?;
            if is_one && is_two {
                break;
            }
        }
        one.settle();
        one.say(&mut End(&back, &there), &[b'<'; 400])?;
        two.step(&mut End(&there, &back))?;
        two.say(&mut End(&there, &back), &[b'<'; 400])?;
        one.step(&mut End(&back, &there))?;
        all.push(one);
        // Memory allocated once came with the first one.
        if number == 0 {
            drop((two, there, back));
            before = used();
        }
    }
    let after = used();
    let each = |after: usize, before: usize| after.saturating_sub(before) / SESSIONS;
    Ok(Used { rust: each(after.rust, before.rust), all: each(after.all, before.all) })
}

/// Nanoseconds of a message of 400 bytes to the other end and back, the least of some batches.
fn time_of_messages(mut one: Box<dyn Peer>, mut two: Box<dyn Peer>) -> io::Result<u128> {
    const MESSAGES: u32 = 2_000;
    let (there, back) = (Pipe::default(), Pipe::default());
    while !(one.step(&mut End(&back, &there))? & two.step(&mut End(&there, &back))?) {}
    let mut least = u128::MAX;
    for _ in 0..15 {
        let began = Instant::now();
        for _ in 0..MESSAGES {
            one.say(&mut End(&back, &there), &[b'<'; 400])?;
            two.step(&mut End(&there, &back))?;
            two.say(&mut End(&there, &back), &[b'<'; 400])?;
            one.step(&mut End(&back, &there))?;
        }
        least = least.min(began.elapsed().as_nanos() / u128::from(MESSAGES));
    }
    Ok(least)
}

type Made = io::Result<Box<dyn Peer>>;

/// The configurations of both ends.
struct Configs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Configs {
    fn new(own: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Result<Configs, Box<dyn Error>> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)?;
        server.ticketer = aws_lc_rs::Ticketer::new()?;
        server.send_tls13_tickets = 1;
        ExporterSecrets::keep(&mut server);
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Configs { client: Arc::new(client), server: Arc::new(server) })
    }

    fn server(&self) -> Made {
        Ok(Box::new(TlsSession::server(Arc::clone(&self.server)).map_err(io::Error::other)?))
    }

    fn client(&self) -> Made {
        Ok(Box::new(TlsSession::client(Arc::clone(&self.client), name()).map_err(io::Error::other)?))
    }

    fn buffered_server(&self) -> Made {
        let made = ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?;
        Ok(Box::new(rustls::Connection::from(made)))
    }

    fn buffered_client(&self) -> Made {
        let made = ClientConnection::new(Arc::clone(&self.client), name()).map_err(io::Error::other)?;
        Ok(Box::new(rustls::Connection::from(made)))
    }
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("the name is one of DNS")
}

fn main() -> Result<(), Box<dyn Error>> {
    let own = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let configs = Configs::new(&own)?;
    println!(
        "| an idle session, bytes | itself | what it points to | the C library's: keys and heads | all |\n|---|---|---|---|---|"
    );
    let row = |what: &str, itself: usize, used: Used| {
        let (rust, other) = (used.rust.saturating_sub(itself), used.all.saturating_sub(used.rust));
        println!("| {what} | {itself} | {rust} | {other} | {} |", used.all);
    };
    let (ours, theirs) = (size_of::<TlsSession>(), size_of::<rustls::Connection>());
    row("server, rustls with buffers", theirs, measure(|| configs.buffered_server(), || configs.client())?);
    row("server", ours, measure(|| configs.server(), || configs.client())?);
    row("client, rustls with buffers", theirs, measure(|| configs.buffered_client(), || configs.server())?);
    row("client", ours, measure(|| configs.client(), || configs.server())?);
    println!("\n| a message of 400 bytes there and back | ns |\n|---|---|");
    let both = time_of_messages(configs.buffered_client()?, configs.buffered_server()?)?;
    println!("| rustls with buffers at both ends | {both} |");
    println!("| sessions at both ends | {} |", time_of_messages(configs.client()?, configs.server()?)?);
    Ok(())
}
