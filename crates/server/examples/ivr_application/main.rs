//! The application of RestComm's tutorial (`examples/ivr/ask-digit.py`) for thousands of requests a second, and callers
//! of its own beside a load, which measure what one perceives. For `make bench-ivr`.
//!
//!     cargo run --release -p server --example ivr_application -- --log ask-digit.log \
//!         --target 127.0.0.1:5060 --probes 100 --report probes.json

mod probe;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use clap::Parser;

const ASK: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<Response>
  <Gather action="/say-digit" method="POST" numDigits="1" timeout="10">
    <Say>Please, enter one digit</Say>
  </Gather>
  <Say>Operation timeout. Please try again later.</Say>
</Response>
"#;

#[derive(Parser)]
struct Options {
    /// Port of 127.0.0.1; 0: any. The URL is printed.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The digit that is right.
    #[arg(long, default_value = "5")]
    expect: String,
    /// Gets a line for each digit of the load's calls, not of the probes'.
    #[arg(long, default_value = "ask-digit.log")]
    log: PathBuf,
    /// Where probes call.
    #[arg(long)]
    target: Option<SocketAddr>,
    /// The number they call.
    #[arg(long, default_value = "1234")]
    service: String,
    /// How many calls.
    #[arg(long, default_value_t = 0)]
    probes: u32,
    /// Milliseconds from one to the next.
    #[arg(long, default_value_t = 100)]
    every: u64,
    /// Gets what they measured, as JSON, once all are over.
    #[arg(long, default_value = "probes.json")]
    report: PathBuf,
}

/// When probes pressed their key, and how long it took to get here.
#[derive(Default)]
struct Digits {
    pressed: HashMap<String, Duration>,
    took: Vec<Duration>,
}

struct App {
    expect: String,
    log: Mutex<File>,
    digits: Mutex<Digits>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Since the Unix epoch, as the kernel stamps what arrives.
fn now() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "it measures, and is no part of the server: it may read the clock"
    )]
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let log = File::options().create(true).append(true).open(&options.log);
    let app = Arc::new(App {
        expect: options.expect.clone(),
        log: Mutex::new(log.with_context(|| format!("{} cannot be written", options.log.display()))?),
        digits: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(app, options))
}

async fn serve(app: Arc<App>, options: Options) -> anyhow::Result<()> {
    let routes = Router::new()
        .route("/ask-digit.xml", get(ask).post(ask))
        .route("/say-digit", post(say))
        .with_state(Arc::clone(&app));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", options.port)).await?;
    println!("http://{}/ask-digit.xml", listener.local_addr()?);
    if let (Some(target), 1..) = (options.target, options.probes) {
        // Blocking sockets: their own threads, so that the application's requests do not wait for them.
        std::thread::Builder::new().spawn(move || {
            if let Err(error) = probe::run(&app, target, &options) {
                eprintln!("probes: {error:#}");
            }
        })?;
    }
    Ok(axum::serve(listener, routes).await?)
}

async fn ask() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/xml; charset=utf-8")], ASK)
}

/// The tutorial's words take flite 1.945 s; the node's `end_pause` follows them, so that the caller, who listens for two
/// seconds, hangs up first.
async fn say(State(app): State<Arc<App>>, body: Bytes) -> impl IntoResponse {
    let now = now();
    let form: HashMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    // Of the caller's own making: shown as text.
    let digit: String = field("Digits").chars().filter(|c| c.is_ascii_digit() || "*#".contains(*c)).collect();
    let mut digits = lock(&app.digits);
    match digits.pressed.remove(field("From")) {
        Some(pressed) => digits.took.push(now.saturating_sub(pressed)),
        None => {
            let verdict = if digit == app.expect { "pass".into() } else { format!("fail: got {digit:?}") };
            let line = format!("{verdict} {}\n", field("CallSid"));
            if let Err(error) = lock(&app.log).write_all(line.as_bytes()) {
                eprintln!("the log cannot be written: {error}");
            }
        }
    }
    let document = format!("<Response><Say>The digit you inserted was {digit}</Say></Response>");
    ([(CONTENT_TYPE, "text/xml; charset=utf-8")], document)
}
