//! The thread that sends the records of a queue to their receiver, in groups and in their order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};
use stdx::error::innermost_cause;
use store::postgres::{CallRow, CallTable, CallTableFault};
use tokio::runtime::{Builder, Runtime};

use crate::limits;
use crate::line::Line;
use crate::spool::Spool;

/// The receiver of records.
pub enum Destination {
    /// A table of a PostgreSQL database.
    Postgres(Box<CallTable>),
    /// A service of HTTP.
    Http(HttpDestination),
}

/// A service of HTTP, which takes JSON lines by POST.
pub struct HttpDestination {
    /// The client for the service, which follows no redirect.
    pub client: Client,
    /// The URL of the service.
    pub url: Box<str>,
    /// The key of signatures; `None`: requests are not signed.
    pub signing_key: Option<Box<str>>,
}

/// A group that was not taken.
enum Fault {
    /// The receiver is away or cannot take any record now.
    Away(String),
    /// A record of the group is at fault, or the group is too large.
    Refused(String),
}

/// The thread's state.
pub(crate) struct Sender {
    spool: Arc<Spool>,
    destination: Destination,
    runtime: Runtime,
}

impl Destination {
    /// The receiver for operators, without a password.
    pub fn name(&self) -> &str {
        match self {
            Destination::Postgres(table) => table.name(),
            Destination::Http(service) => &service.url,
        }
    }
}

impl Sender {
    pub(crate) fn new(spool: Arc<Spool>, destination: Destination) -> io::Result<Sender> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Sender { spool, destination, runtime })
    }

    /// Sends until the queue ends.
    pub(crate) fn run(mut self) {
        let end = End(Arc::clone(&self.spool));
        let mut pause = limits::FIRST_PAUSE;
        while let Some(group) = self.spool.next_group() {
            match self.deliver(&group.lines) {
                Ok(refused) => {
                    if pause > limits::FIRST_PAUSE {
                        tracing::info!(receiver = self.destination.name(), "call records are sent again");
                    }
                    self.spool.finish(&group, refused);
                    pause = limits::FIRST_PAUSE;
                }
                Err(why) => {
                    if self.spool.note_failure(&why) {
                        tracing::warn!(
                            receiver = self.destination.name(),
                            why,
                            "call records wait in the queue on disk, as their receiver did not take them"
                        );
                    }
                    if !self.spool.pause(pause) {
                        break;
                    }
                    pause = next_pause(pause);
                }
            }
        }
        // The receiver is left before the end is told.
        drop(self);
        drop(end);
    }

    /// Sends records, those of a refused group in halves, so that one record holds up no other. Returns how many were refused alone.
    fn deliver(&mut self, lines: &[Line]) -> Result<u64, String> {
        if lines.is_empty() {
            return Ok(0);
        }
        match self.send(lines) {
            Ok(()) => Ok(0),
            Err(Fault::Away(why)) => Err(why),
            Err(Fault::Refused(why)) if lines.len() == 1 => {
                let (receiver, id) = (self.destination.name(), &*lines[0].id);
                tracing::warn!(receiver, id, why, "a call record was refused and is not sent again");
                Ok(1)
            }
            Err(Fault::Refused(_)) => {
                let (first, second) = lines.split_at(lines.len() / 2);
                Ok(self.deliver(first)? + self.deliver(second)?)
            }
        }
    }

    fn send(&mut self, lines: &[Line]) -> Result<(), Fault> {
        match &mut self.destination {
            Destination::Postgres(table) => {
                let rows: Vec<CallRow<'_>> =
                    lines.iter().map(|line| CallRow { id: &line.id, record: &line.record }).collect();
                table.insert(&rows).map(drop).map_err(|fault| match fault {
                    CallTableFault::Away(error) => Fault::Away(error.to_string()),
                    CallTableFault::Refused(error) => Fault::Refused(error.to_string()),
                })
            }
            Destination::Http(service) => self.runtime.block_on(service.post(lines)),
        }
    }
}

/// Tells the end of the thread, also after a panic.
struct End(Arc<Spool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.note_end();
    }
}

impl HttpDestination {
    async fn post(&self, lines: &[Line]) -> Result<(), Fault> {
        let mut body = Vec::new();
        lines.iter().for_each(|line| line.write(&mut body));
        let mut url = self.url.to_string();
        let mut signature = None;
        if let Some(key) = &self.signing_key {
            let signed = ivr::signature::sign_body(key, &url, &body);
            url = signed.0;
            signature = Some(signed.1);
        }
        let mut post = self.client.post(url).header(CONTENT_TYPE, "application/x-ndjson").body(body);
        if let Some(signature) = signature {
            post = post.header(ivr::signature::HEADER, signature);
        }
        let response = post.timeout(limits::ANSWER_TIME).send().await;
        match response.map(|response| response.status()) {
            Ok(status) if status.is_success() => Ok(()),
            // Of the content. Any other status may be one of the service's configuration or of its bad day: records wait for its mending.
            Ok(status @ (StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY)) => {
                Err(Fault::Refused(format!("the status is {status}")))
            }
            Ok(status) => Err(Fault::Away(format!("the status is {status}"))),
            Err(error) => Err(Fault::Away(cause(&error))),
        }
    }
}

/// The innermost cause, without the URL, which is named beside it.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer for {:?}", limits::ANSWER_TIME);
    }
    innermost_cause(error).to_string()
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(limits::LONGEST_PAUSE)
}
