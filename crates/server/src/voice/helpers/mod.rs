//! What takes time, off the shards: documents over HTTP, and speech. A small one: plain HTTP, one request at a time,
//! and a tone for every word.

#![allow(clippy::needless_pass_by_value, reason = "what is asked for is the helper's")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ivr::document::{Voice, code};
use ivr::request::Wire;
use ivr::script::{Answer, Failure};

/// Who asked, and its number for the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) shard: u16,
    pub(crate) id: u64,
}

/// What came of it. Samples are of 8 kHz, one channel.
#[derive(Debug)]
pub(crate) enum Done {
    Fetched(Result<Answer, Failure>),
    Samples(Result<Arc<[i16]>, String>),
}

/// Where answers go.
pub(crate) trait Deliver: Send + Sync {
    fn deliver(&self, ticket: Ticket, done: Done);
}

/// What an operator may say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) allow_private: bool,
    pub(crate) prompts: Option<std::path::PathBuf>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) fetch_timeout: Duration,
}

pub(crate) struct Helpers {
    jobs: SyncSender<(Ticket, Wire)>,
    deliver: Arc<dyn Deliver>,
}

/// Requests that wait. More fail at once.
const WAITING: usize = 1_024;

impl Helpers {
    pub(crate) fn start(_settings: Settings, deliver: Arc<dyn Deliver>) -> std::io::Result<Helpers> {
        let (jobs, todo) = sync_channel(WAITING);
        let answers = Arc::clone(&deliver);
        std::thread::Builder::new().name("voice-http".into()).spawn(move || run(&todo, &*answers))?;
        Ok(Helpers { jobs, deliver })
    }

    pub(crate) fn fetch(&self, ticket: Ticket, wire: Wire) {
        if self.jobs.try_send((ticket, wire)).is_err() {
            self.deliver.deliver(ticket, Done::Fetched(Err(unreachable("too many requests wait"))));
        }
    }

    pub(crate) fn speech(&self, ticket: Ticket, text: String, _voice: Voice, _language: String) {
        let words = text.split_whitespace().count();
        let tone = media::tone::beep(8_000);
        let samples: Vec<i16> = std::iter::repeat_n(tone, words).flatten().collect();
        self.deliver.deliver(ticket, Done::Samples(Ok(samples.into())));
    }

    pub(crate) fn audio(&self, ticket: Ticket, url: String) {
        self.deliver.deliver(ticket, Done::Samples(Err(format!("{url}: audio files are not built yet"))));
    }
}

fn run(todo: &Receiver<(Ticket, Wire)>, deliver: &dyn Deliver) {
    while let Ok((ticket, wire)) = todo.recv() {
        let result = ask(&wire).map_err(|error| unreachable(&error.to_string()));
        deliver.deliver(ticket, Done::Fetched(result));
    }
}

fn unreachable(text: &str) -> Failure {
    Failure { code: code::UNREACHABLE, text: text.to_owned() }
}

fn ask(wire: &Wire) -> std::io::Result<Answer> {
    let wrong = || std::io::Error::other("not an HTTP answer");
    let rest = wire.url.strip_prefix("http://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let method = if wire.body.is_some() { "POST" } else { "GET" };
    let body = wire.body.as_deref().unwrap_or_default();
    write!(
        stream,
        "{method} /{path} HTTP/1.0\r\nHost: {host}\r\nX-Twilio-Signature: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        wire.signature,
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(wrong)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(wrong)?;
    let content_type = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    });
    Ok(Answer { status, content_type, body: answer[end + 4..].to_vec(), url: None })
}
