//! `--prometheus ADDRESS`: the run's counters for a scraper, text format 0.0.4.
//!
//! The page is made with each interval and kept as text, so that a scrape costs the run nothing. Names follow the conventions of Prometheus:
//! `ringer_` before all, `_total` behind counters, seconds as the unit of times.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lab_sip::stats::{Count, Durations};
use parking_lot::RwLock;
use stdx::time::Instant;

use crate::engine::clock::Clock;
use crate::engine::{Progress, RunOutcome, Setup};
use crate::session::Observer;

/// The default port of OpenTelemetry's exporters, which no other part of Ringer uses.
pub const DEFAULT_PORT: u16 = 9464;
/// A scraper that has not sent its request and read the answer in this time is let go.
const PATIENCE: Duration = Duration::from_secs(2);
/// No request line of a scraper is longer.
const MAX_REQUEST: u64 = 8_192;

/// Serves until the process ends; what it serves is the last interval told.
pub struct Exporter {
    /// The page of the last interval; empty before the first. The lock is held for the exchange of the page alone, never while a scraper is
    /// served: the run waits for it.
    page: Arc<RwLock<Arc<str>>>,
    /// The bound address, with the port that the system chose for port 0.
    address: SocketAddr,
}

impl Exporter {
    /// Binds the address and answers requests on a thread of its own.
    pub fn start(address: SocketAddr) -> io::Result<Exporter> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let page: Arc<RwLock<Arc<str>>> = Arc::new(RwLock::new(Arc::from("")));
        let served = Arc::clone(&page);
        // One at a time: a scrape is a few kilobytes every few seconds.
        thread::Builder::new().name("prometheus".to_owned()).spawn(move || {
            let clock = Clock::new();
            for stream in listener.incoming().flatten() {
                // A scraper's fault is its own; the next one is served.
                let _ = serve(ScrapeStream { stream, clock, until: clock.now() + PATIENCE }, &served);
            }
        })?;
        Ok(Exporter { page, address })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Observer for Exporter {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        let page = page(progress, &setup.scenario.rtds);
        *self.page.write() = page.into();
    }

    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome) {
        let page = page(&outcome.progress, &setup.scenario.rtds);
        *self.page.write() = page.into();
    }
}

/// The connection of a scraper, with a deadline for all its reads and writes together.
struct ScrapeStream {
    stream: TcpStream,
    clock: Clock,
    /// Reads and writes fail from then on.
    until: Instant,
}

impl ScrapeStream {
    /// The time that is left for the next read or write.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.since(self.clock.now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for ScrapeStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&self.stream).read(bytes)
    }
}

impl Write for ScrapeStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the request to the end of its head and answers: the page for `/metrics`, otherwise 404. Every connection is closed.
fn serve(mut stream: impl Read + Write, page: &RwLock<Arc<str>>) -> io::Result<()> {
    let page = Arc::clone(&page.read());
    let mut request = BufReader::new(Read::take(&mut stream, MAX_REQUEST));
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut line = String::new();
    // A line of two bytes is the empty one at the end of the head.
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = if first.starts_with("GET /metrics") {
        ("200 OK", &*page)
    } else {
        ("404 Not Found", "see /metrics\n")
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// All figures of the run so far.
fn page(progress: &Progress, rtds: &[String]) -> String {
    let counts = &progress.total.counts;
    let gauges = &progress.gauges;
    let mut out = String::with_capacity(4_096);
    for (name, help, count) in [
        ("due", "Arrivals that were due", Count::Due),
        ("blocked", "Arrivals that could not start", Count::Blocked),
        ("started", "Calls started", Count::OutgoingCall),
        ("arrived", "Calls that arrived", Count::IncomingCall),
        ("successful", "Calls that ended well", Count::SuccessfulCall),
    ] {
        counter(&mut out, &format!("ringer_calls_{name}_total"), help, counts[count]);
    }
    let _ = write!(
        out,
        "# HELP ringer_calls_failed_total Calls that failed, by cause\n# TYPE ringer_calls_failed_total counter\n"
    );
    for cause in Count::FAILURES {
        let _ = writeln!(out, "ringer_calls_failed_total{{cause=\"{cause:?}\"}} {}", counts[*cause]);
    }
    for (name, help, count) in [
        ("messages_sent", "SIP messages sent", Count::MessagesSent),
        ("messages_received", "SIP messages received", Count::MessagesReceived),
        ("retransmissions", "Messages sent again", Count::Retransmissions),
        ("malformed", "Messages that are not SIP", Count::Malformed),
        ("receive_drops", "Datagrams the kernel dropped at Ringer's sockets", Count::ReceiveDrops),
        ("rtp_sent", "RTP packets sent", Count::RtpSent),
        ("rtp_received", "RTP packets received", Count::RtpReceived),
        ("rtp_lost", "RTP packets lost", Count::RtpLost),
        ("rtp_refused", "RTP packets the kernel did not take", Count::RtpRefused),
    ] {
        counter(&mut out, &format!("ringer_{name}_total"), help, counts[count]);
    }
    gauge(&mut out, "ringer_calls_open", "Calls open now", gauges.open_calls);
    gauge(&mut out, "ringer_calls_limit", "Most calls open at once", gauges.limit);
    gauge(&mut out, "ringer_rate_wanted", "Calls a second asked for", gauges.target_rate);
    // From the sending of a request (`service`), and from when its call was due (`response`), which includes the delay of a late start.
    for (timer, name) in progress.total.rtds.iter().zip(rtds) {
        summary(
            &mut out,
            "ringer_response_seconds",
            &format!("counter=\"{}\",", label(name)),
            &timer.service,
        );
        summary(
            &mut out,
            "ringer_response_from_due_seconds",
            &format!("counter=\"{}\",", label(name)),
            &timer.response,
        );
    }
    summary(&mut out, "ringer_start_delay_seconds", "", &progress.total.start_delay);
    out
}

/// A counter with its help and type.
fn counter(out: &mut String, name: &str, help: &str, value: u64) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
}

/// A gauge with its help and type.
fn gauge(out: &mut String, name: &str, help: &str, value: impl std::fmt::Display) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
}

/// Quantiles, sum and number of a distribution, in seconds. `labels` ends with a comma, or is empty.
fn summary(out: &mut String, name: &str, labels: &str, durations: &Durations) {
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        if let Some(time) = durations.quantile(quantile) {
            let _ = writeln!(out, "{name}{{{labels}quantile=\"{quantile}\"}} {:.6}", time.as_secs_f64());
        }
    }
    let labels = labels.trim_end_matches(',');
    let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ =
        writeln!(out, "{name}_sum{braces} {:.6}\n{name}_count{braces} {}", durations.sum / 1e6, durations.n);
}

/// A label's value with what the format has to escape.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_sip::stats::TimerDurations;

    /// The words of every query below this value that begin as our metrics do.
    fn queried(value: &serde_json::Value, names: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Array(values) => values.iter().for_each(|value| queried(value, names)),
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let query =
                        value.as_str().filter(|_| ["expr", "query", "definition"].contains(&name.as_str()));
                    let words =
                        query.unwrap_or_default().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    names.extend(words.filter(|word| word.starts_with("ringer_")).map(str::to_owned));
                    queried(value, names);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_queries_the_metrics_that_there_are_and_all_of_them() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/ringer.json");
        let text = std::fs::read_to_string(path).expect("the dashboard is there");
        let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut names = std::collections::BTreeSet::new();
        queried(&dashboard, &mut names);
        let mut progress = Progress::default();
        progress.total.rtds.push(TimerDurations::default());
        progress.total.rtds[0].service.record(Duration::from_millis(20));
        progress.total.rtds[0].response.record(Duration::from_millis(20));
        progress.total.start_delay.record(Duration::from_millis(1));
        let served = page(&progress, &["1".to_owned()]);
        let metrics: std::collections::BTreeSet<String> = served
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .map(str::to_owned)
            .collect();
        let unknown: Vec<&String> = names.difference(&metrics).collect();
        assert!(unknown.is_empty(), "the dashboard queries what Ringer does not have: {unknown:?}");
        // Sums and numbers belong to the quantiles above them.
        let is_part = |name: &&String| name.ends_with("_sum") || name.ends_with("_count");
        let unused: Vec<&String> = metrics.difference(&names).filter(|name| !is_part(name)).collect();
        assert!(unused.is_empty(), "the dashboard does not show {unused:?}");
    }

    #[test]
    fn a_scraper_gets_counters_and_quantiles() {
        let mut progress = Progress::default();
        progress.total.add(Count::SuccessfulCall, 7);
        progress.total.add(Count::FailedTimeoutOnRecv, 2);
        progress.total.rtds.push(TimerDurations::default());
        progress.total.rtds[0].service.record(Duration::from_millis(20));
        let exporter = Exporter::start("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        *exporter.page.write() = page(&progress, &["set\"up".to_owned()]).into();
        let get = |path: &str| {
            let mut stream = TcpStream::connect(exporter.address()).expect("it listens");
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("read");
            text
        };
        let text = get("/metrics");
        for line in [
            "ringer_calls_successful_total 7",
            "ringer_calls_failed_total{cause=\"FailedTimeoutOnRecv\"} 2",
            "ringer_response_seconds{counter=\"set\\\"up\",quantile=\"0.99\"} 0.020",
            "ringer_response_seconds_count{counter=\"set\\\"up\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(get("/").starts_with("HTTP/1.1 404"));
    }

    /// A scraper at the moment it is read from.
    struct Watching<'a> {
        request: &'static [u8],
        page: &'a RwLock<Arc<str>>,
        answer: &'a mut Vec<u8>,
    }

    impl Read for Watching<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            assert!(self.page.try_write().is_some(), "the run waits for a scraper");
            self.request.read(bytes)
        }
    }

    impl Write for Watching<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(self.page.try_write().is_some(), "the run waits for a scraper");
            self.answer.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_page_of_an_interval_does_not_wait_for_scrapers() {
        let (page, mut answer) = (RwLock::new(Arc::<str>::from("page")), Vec::new());
        let scraper =
            Watching { request: b"GET /metrics HTTP/1.1\r\n\r\n", page: &page, answer: &mut answer };
        serve(scraper, &page).expect("served");
        assert!(answer.ends_with(b"\r\n\r\npage"), "{}", String::from_utf8_lossy(&answer));
    }

    #[test]
    fn a_scraper_has_one_time_for_all_its_reads() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let page = RwLock::new(Arc::<str>::from("page"));
        let clock = Clock::new();
        let exchange = |until: Instant| {
            let mut scraper = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
            let (stream, _) = listener.accept().expect("a scraper");
            serve(ScrapeStream { stream, clock, until }, &page).map_err(|error| error.kind())
        };
        assert_eq!(exchange(clock.now()), Err(io::ErrorKind::TimedOut));
        assert_eq!(exchange(clock.now() + PATIENCE), Ok(()));
    }
}
