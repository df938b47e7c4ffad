//! Measures the resident bytes that an idle connection costs this process, by transport. The clients are a
//! child process, so that only the server's side is counted; the kernel's memory is not.
//!
//!     cargo run --release -p net --example idle_connections

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use net::clock::Clock;
use net::tickets::TicketKeys;
use net::tls::{Tls, self_signed};
use net::{Io, Listener, NetSettings};
use router::{Life, ShardAddress};
use sip::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const WARM_UP: usize = 100;
const CONNECTIONS: usize = 800;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.as_slice() {
        [_, kind, address, certificate] => {
            runtime.block_on(clients(kind, address.parse()?, Path::new(certificate)))
        }
        _ => LocalSet::new().block_on(&runtime, serve()),
    }
}

async fn serve() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let files = self_signed(directory.path(), &["localhost"])?;
    let certificate = files.certificate.clone();
    let tls = Tls::load(files, TicketKeys::new([0; 32], Clock::new()))?;
    println!("transport  resident bytes each ({CONNECTIONS} idle connections)");
    for (transport, kind) in
        [(Transport::Tcp, "tcp"), (Transport::Ws, "ws"), (Transport::Tls, "tls"), (Transport::Wss, "wss")]
    {
        let settings = NetSettings { tls: Some(Arc::clone(&tls)), ..NetSettings::default() };
        let mut io = Io::new(ShardAddress { life: Life(0), shard: 0 }, settings);
        let bound = io.bind(&Listener { transport, address: "127.0.0.1:0".parse()? })?;
        println!("{kind:>9}  {}", measure(&mut io, kind, bound.address, &certificate).await?);
    }
    Ok(())
}

async fn measure(io: &mut Io, kind: &str, address: SocketAddr, certificate: &Path) -> anyhow::Result<usize> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([kind, &address.to_string()])
        .arg(certificate)
        .stdin(Stdio::piped())
        .spawn()?;
    // Memory allocated once, with the first connections, does not count.
    let mut opened = open_until(io, 0, WARM_UP).await;
    let (before, first) = (resident()?, opened);
    opened = open_until(io, opened, WARM_UP + CONNECTIONS).await;
    let each = resident()?.saturating_sub(before) / (opened - first);
    drop(child.stdin.take());
    child.wait()?;
    Ok(each)
}

async fn open_until(io: &mut Io, mut opened: usize, wanted: usize) -> usize {
    let mut events = Vec::new();
    while opened < wanted {
        io.ready().await;
        io.take_events(&mut events);
        opened += events.drain(..).count();
    }
    opened
}

fn resident() -> anyhow::Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).context("statm has a second field")?.parse()?;
    Ok(pages * 4096)
}

/// Opens connections, then waits until the parent closes our standard input.
async fn clients(kind: &str, address: SocketAddr, certificate: &Path) -> anyhow::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate)?)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let mut open: Vec<Box<dyn std::any::Any>> = Vec::new();
    for _ in 0..WARM_UP + CONNECTIONS {
        let socket = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost")?;
        open.push(match kind {
            "tcp" => Box::new(socket),
            "ws" => Box::new(open_ws(socket).await?),
            "tls" => Box::new(connector.connect(name, socket).await?),
            "wss" => Box::new(open_ws(connector.connect(name, socket).await?).await?),
            other => bail!("no such transport: {other}"),
        });
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

async fn open_ws<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
) -> anyhow::Result<tokio_tungstenite::WebSocketStream<S>> {
    let mut request = "ws://localhost/".into_client_request()?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse()?);
    Ok(client_async(request, io).await?.0)
}
