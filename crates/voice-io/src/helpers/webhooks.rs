//! Posts events to applications: one bounded queue and one task for each URL, on a thread of their own.
//!
//! [`Webhooks::send`] never waits: an event that finds its queue full is dropped and counted. An event that an application does not take
//! (no connection, no answer in time, a status of 500 and above, 408 or 429) is tried again after a pause that doubles; the events behind
//! it wait, so an application gets its events in their order. After [`limits::WEBHOOK_PATIENCE`], or any other refusal, the event is dropped.
//! The log has one line when an application begins to fail, and one when it takes events again.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use futures_util::future::{Either, join_all, select};
use ivr::request::Wire;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::http::{Ask, Http, SIGNATURE};
use super::{Settings, limits};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Events of all URLs since the start, by their end.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Figures of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookFigures {
    /// Events that wait, those under way among them.
    pub queued: u64,
    /// Events that an application has taken.
    pub sent: u64,
    /// Events that found a full queue, or that no application took.
    pub dropped: u64,
}

/// An event in a queue.
#[derive(Debug)]
struct QueuedEvent {
    wire: Wire,
    since: Instant,
    _share: QueueShare,
}

/// The bytes of an event in the sum of its queue, until it is delivered or dropped.
#[derive(Debug)]
struct QueueShare {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl QueueShare {
    /// `None`: the queue has too many bytes.
    fn take(sum: &Arc<AtomicUsize>, wire: &Wire) -> Option<QueueShare> {
        let bytes = wire.url.len() + wire.body.as_ref().map_or(0, String::len);
        let share = QueueShare { sum: Arc::clone(sum), bytes };
        (sum.fetch_add(bytes, Ordering::Relaxed) + bytes <= limits::WEBHOOK_QUEUE_BYTES).then_some(share)
    }
}

impl Drop for QueueShare {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The queue of one URL.
struct WebhookQueue {
    events: mpsc::Sender<QueuedEvent>,
    bytes: Arc<AtomicUsize>,
}

/// The queues of all URLs, and their thread. When it is dropped, events that wait get [`limits::WEBHOOK_LAST`] to be taken.
pub struct Webhooks {
    queues: Vec<WebhookQueue>,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Webhooks {
    /// Starts the thread, with a queue for each of these URLs. Their names are for the log.
    ///
    /// # Errors
    /// A client of HTTP that cannot be set up, or no thread.
    pub fn start(names: Vec<String>) -> anyhow::Result<Webhooks> {
        // All clients here use this provider for TLS. Another part of the process may have set the same one already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // The operator has named the URLs in the configuration: they may be of this machine.
        let http = Http::new(&Settings { allow_private: true, ..Settings::default() }, None)?;
        let counts = Arc::new(Counts::default());
        let queue = |_| {
            let (events, waiting) = mpsc::channel(limits::WEBHOOK_QUEUE);
            (WebhookQueue { events, bytes: Arc::default() }, waiting)
        };
        let (queues, waiting): (Vec<_>, Vec<_>) = names.iter().map(queue).unzip();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(limits::BLOCKING)
            .build()
            .context("no runtime for webhooks")?;
        let of_tasks = Arc::clone(&counts);
        let run = move || {
            let http = Rc::new(http);
            let tasks = names.into_iter().zip(waiting).map(|(name, queue)| {
                let http = Rc::clone(&http);
                let send = move |wire: Wire| {
                    let http = Rc::clone(&http);
                    async move { post(&http, wire).await }
                };
                deliver_all(name, queue, Arc::clone(&of_tasks), send)
            });
            let all = Box::pin(join_all(tasks));
            runtime.block_on(async {
                if let Either::Right((_, all)) = select(all, stopped).await {
                    let _ = tokio::time::timeout(limits::WEBHOOK_LAST, all).await;
                }
            });
            // A name server that does not answer is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("webhooks".into()).spawn(run)?;
        Ok(Webhooks { queues, counts, stop: Some(stop), thread: Some(thread) })
    }

    /// Queues an event for the URL of this number, in the order of [`Webhooks::start`]. A full queue does not ask for the request.
    pub fn send(&self, number: usize, wire: impl FnOnce() -> Wire) {
        let Some(queue) = self.queues.get(number) else { return };
        let queued = queue.events.try_reserve().ok().and_then(|place| {
            let wire = wire();
            let share = QueueShare::take(&queue.bytes, &wire)?;
            place.send(QueuedEvent { wire, since: Instant::now(), _share: share });
            Some(())
        });
        if queued.is_none() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The figures of now.
    pub fn figures(&self) -> WebhookFigures {
        let queued = |queue: &WebhookQueue| (queue.events.max_capacity() - queue.events.capacity()) as u64;
        WebhookFigures {
            queued: self.queues.iter().map(queued).sum(),
            sent: self.counts.sent.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.queues.clear();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The outcome of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PostOutcome {
    /// The application has the event.
    Taken,
    /// It may take the event later.
    Failed(String),
    /// It will not take this event.
    Refused(String),
}

/// Posts one event. The URL is not in the reason: it may have a secret in its query.
async fn post(http: &Http, wire: Wire) -> PostOutcome {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, JSON);
    if let Ok(signature) = HeaderValue::from_str(&wire.signature) {
        headers.insert(SIGNATURE, signature);
    }
    let url = wire.url.clone();
    let ask =
        Ask { url: wire.url, body: wire.body, headers, most: limits::WEBHOOK_ANSWER, wants_sound: false };
    match http.post(ask).await {
        Ok(status) if status.is_success() => PostOutcome::Taken,
        Ok(status) => outcome_of(status),
        Err(failure) => PostOutcome::Failed(failure.text.replace(&url, "the URL")),
    }
}

/// RFC 9110 §15.6: a server that has erred may not the next time; 408 and 429 say "later".
fn outcome_of(status: StatusCode) -> PostOutcome {
    let text = format!("status {}", status.as_u16());
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => PostOutcome::Failed(text),
        status if status.is_server_error() => PostOutcome::Failed(text),
        _ => PostOutcome::Refused(text),
    }
}

/// Delivers the events of one URL in their order, until the queue has ended.
async fn deliver_all<F: Future<Output = PostOutcome>>(
    name: String,
    mut queue: mpsc::Receiver<QueuedEvent>,
    counts: Arc<Counts>,
    post: impl Fn(Wire) -> F,
) {
    let mut is_failing = false;
    while let Some(event) = queue.recv().await {
        let report = |reason: &str| {
            if !std::mem::replace(&mut is_failing, true) {
                tracing::warn!(
                    webhook = name,
                    reason,
                    "the application does not take events of chat: they wait"
                );
            }
        };
        let refused = deliver(&event, &post, report).await;
        match refused {
            None => {
                counts.sent.fetch_add(1, Ordering::Relaxed);
                if std::mem::take(&mut is_failing) {
                    let dropped = counts.dropped.load(Ordering::Relaxed);
                    tracing::info!(webhook = name, dropped, "the application takes events of chat again");
                }
            }
            Some(reason) => {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(webhook = name, reason, "an event of chat is dropped");
            }
        }
    }
}

/// Delivers one event. Returns the reason if it is dropped.
async fn deliver<F: Future<Output = PostOutcome>>(
    event: &QueuedEvent,
    post: impl Fn(Wire) -> F,
    mut report: impl FnMut(&str),
) -> Option<String> {
    let mut pause = limits::WEBHOOK_RETRY;
    loop {
        let reason = match post(event.wire.clone()).await {
            PostOutcome::Taken => return None,
            PostOutcome::Refused(reason) => {
                report(&reason);
                return Some(reason);
            }
            PostOutcome::Failed(reason) => reason,
        };
        report(&reason);
        if event.since.elapsed() + pause > limits::WEBHOOK_PATIENCE {
            return Some(reason);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::WEBHOOK_RETRY_MOST);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    fn event(number: u32) -> QueuedEvent {
        let wire = Wire {
            url: "https://a.test/".into(),
            body: Some(number.to_string()),
            signature: "s".into(),
            call_id: None,
        };
        let share = QueueShare::take(&Arc::default(), &wire).unwrap();
        QueuedEvent { wire, since: Instant::now(), _share: share }
    }

    /// Delivers these events to an application that answers so, and then takes all. Returns the bodies that it got, with the seconds, and
    /// the counts.
    fn delivered(events: u32, answers: Vec<PostOutcome>) -> (Vec<(u64, String)>, u64, u64) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (sender, queue) = mpsc::channel(limits::WEBHOOK_QUEUE);
        let counts = Arc::new(Counts::default());
        let (answers, got) = (RefCell::new(VecDeque::from(answers)), RefCell::new(Vec::new()));
        runtime.block_on(async {
            let began = Instant::now();
            for number in 0..events {
                sender.try_send(event(number)).unwrap();
            }
            drop(sender);
            let post = |wire: Wire| {
                got.borrow_mut().push((began.elapsed().as_secs(), wire.body.unwrap()));
                let answer = answers.borrow_mut().pop_front().unwrap_or(PostOutcome::Taken);
                async move { answer }
            };
            deliver_all("a.test".into(), queue, Arc::clone(&counts), post).await;
        });
        (got.into_inner(), counts.sent.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed))
    }

    fn failed() -> PostOutcome {
        PostOutcome::Failed("status 503".into())
    }

    #[test]
    fn an_event_that_is_not_taken_is_tried_again_before_those_behind_it() {
        let (got, sent, dropped) = delivered(2, vec![failed(), failed()]);
        let expected = [(0, "0"), (1, "0"), (3, "0"), (3, "1")].map(|(at, body)| (at, body.to_owned()));
        assert_eq!((got, sent, dropped), (expected.to_vec(), 2, 0));
    }

    #[test]
    fn an_event_that_is_refused_is_dropped_at_once() {
        let (got, sent, dropped) = delivered(2, vec![PostOutcome::Refused("status 404".into())]);
        assert_eq!((got.len(), sent, dropped), (2, 1, 1));
    }

    #[test]
    fn an_event_is_dropped_when_the_patience_is_over_and_pauses_are_bounded() {
        let (got, sent, dropped) = delivered(1, vec![failed(); 100]);
        assert_eq!((sent, dropped), (0, 1));
        let last = got.last().unwrap().0;
        let patience = limits::WEBHOOK_PATIENCE.as_secs();
        let most = limits::WEBHOOK_RETRY_MOST.as_secs();
        assert!((patience - most..=patience).contains(&last), "{got:?}");
        assert!(got.windows(2).all(|pair| pair[1].0 - pair[0].0 <= most), "{got:?}");
    }

    #[test]
    fn statuses_say_whether_to_try_again() {
        for (status, is_tried) in
            [(500, true), (503, true), (429, true), (408, true), (400, false), (301, false)]
        {
            let outcome = outcome_of(StatusCode::from_u16(status).unwrap());
            assert_eq!(matches!(outcome, PostOutcome::Failed(_)), is_tried, "{status}");
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts_and_an_end_does_not_wait_for_an_application_that_is_away() {
        let webhooks = Webhooks::start(vec!["nowhere".into()]).unwrap();
        // Port 0 takes no connection.
        let wire = Wire {
            url: "http://127.0.0.1:0/".into(),
            body: Some("{}".into()),
            signature: String::new(),
            call_id: None,
        };
        for _ in 0..limits::WEBHOOK_QUEUE + 10 {
            webhooks.send(0, || wire.clone());
        }
        // One may be under way.
        let figures = webhooks.figures();
        assert!((9..=10).contains(&figures.dropped), "{figures:?}");
        assert!(figures.queued as usize >= limits::WEBHOOK_QUEUE - 1 && figures.sent == 0, "{figures:?}");
        // It comes back: without the end of its patience it would try for ten minutes.
        drop(webhooks);
    }

    #[test]
    fn the_bytes_of_a_queue_are_bounded_for_events_of_any_size() {
        let webhooks = Webhooks::start(vec!["nowhere".into()]).unwrap();
        let wire = || Wire {
            url: "http://127.0.0.1:0/".into(),
            body: Some("x".repeat(limits::WEBHOOK_QUEUE_BYTES / 4)),
            signature: String::new(),
            call_id: None,
        };
        (0..10).for_each(|_| webhooks.send(0, wire));
        assert_eq!(webhooks.figures().dropped, 7, "three and their URLs have room");
    }

    /// A redirect is refused: what it names is no URL of the operator, and a GET would have no event.
    #[test]
    fn a_redirect_is_not_followed_and_the_answer_is_not_read_to_its_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = [
            format!(
                "HTTP/1.1 307 X\r\nLocation: http://{address}/else\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            format!(
                "HTTP/1.1 200 X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                10 * limits::WEBHOOK_ANSWER
            ),
        ];
        let serve = move || {
            for (answer, mut stream) in answers.iter().zip(listener.incoming().flatten()) {
                use std::io::{Read as _, Write as _};
                let mut piece = [0; 4096];
                let _ = stream.read(&mut piece);
                let _ = stream.write_all(answer.as_bytes());
            }
        };
        let server = std::thread::Builder::new().spawn(serve).unwrap();
        let settings = Settings { allow_private: true, ..Settings::default() };
        let http = Http::new(&settings, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wire = Wire {
            url: format!("http://{address}/hook"),
            body: Some("{}".into()),
            signature: "s".into(),
            call_id: None,
        };
        let outcomes = [(); 2].map(|()| runtime.block_on(post(&http, wire.clone())));
        assert_eq!(outcomes, [PostOutcome::Refused("status 307".into()), PostOutcome::Taken]);
        server.join().unwrap();
    }
}
