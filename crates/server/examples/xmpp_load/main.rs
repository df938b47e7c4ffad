//! Chat clients by the thousand, for `make bench-xmpp-idle` (`bench/xmpp/run`): they sign in and stay, or are the
//! occupants of a room in which one of them speaks.
//!
//! Each stage that they reach is a line of standard output; the measuring program answers with a line when
//! they may go on.
//!
//!     cargo run --release -p server --example xmpp_load -- idle 127.0.0.1:5222 --count 8000

mod client;
mod room;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinSet;

use client::Client;

#[derive(Parser)]
#[command(about)]
pub(crate) struct Options {
    part: Part,
    /// Where clients connect.
    address: SocketAddr,
    #[arg(long, default_value = "localhost")]
    domain: String,
    /// Accounts are `user0`, `user1` and so on, all with this password.
    #[arg(long, default_value = "secret")]
    password: String,
    /// How many sign in.
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: usize,
    #[arg(long, default_value = "plain")]
    mechanism: Mechanism,
    /// TLS from the first byte, certified by this file.
    #[arg(long)]
    tls: Option<PathBuf>,
    /// That many sign in at a time.
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// Without roster and presence.
    #[arg(long)]
    bare: bool,
    /// Messages in the room.
    #[arg(long, default_value_t = 30)]
    messages: u32,
    /// Milliseconds from one to the next.
    #[arg(long, default_value_t = 1000)]
    every: u64,
    /// The room's service.
    #[arg(long, default_value = "conference.localhost")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// All sign in and are silent.
    Idle,
    /// All enter one room.
    Room,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    Plain,
    Scram,
}

fn main() -> anyhow::Result<()> {
    let options = Arc::new(Options::parse());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(options))
}

async fn run(options: Arc<Options>) -> anyhow::Result<()> {
    let tls = options.tls.as_deref().map(trust).transpose()?;
    let mut waiting = options.first..options.first + options.count;
    let mut signing_in = JoinSet::new();
    let mut clients = Vec::with_capacity(options.count);
    while clients.len() < options.count {
        while signing_in.len() < options.at_once
            && let Some(number) = waiting.next()
        {
            let (options, tls) = (Arc::clone(&options), tls.clone());
            signing_in.spawn(async move {
                let signed_in = Client::sign_in(&options, tls, number).await;
                signed_in.with_context(|| format!("user{number}"))
            });
        }
        let Some(done) = signing_in.join_next().await else { bail!("fewer clients than were asked for") };
        clients.push(done??);
    }
    println!("signed in {}", clients.len());
    match options.part {
        Part::Idle => idle(clients).await,
        Part::Room => room::measure(clients, &options).await,
    }
}

/// Waits until told to go on. A client that is disconnected meanwhile is not idle.
async fn idle(mut clients: Vec<Client>) -> anyhow::Result<()> {
    wait().await?;
    let lost =
        poll_fn(|cx| Poll::Ready(clients.iter_mut().filter_map(|client| client.poll_end(cx)).count())).await;
    if lost > 0 {
        bail!("{lost} clients were disconnected");
    }
    for client in &mut clients {
        client.say("</stream:stream>").await?;
    }
    for client in &mut clients {
        client.end().await;
    }
    println!("gone");
    wait().await
}

/// For a line of standard input.
pub(crate) async fn wait() -> anyhow::Result<()> {
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

fn trust(path: &std::path::Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path).with_context(|| path.display().to_string())?)?;
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"xmpp-client".to_vec()];
    Ok(Arc::new(config))
}
