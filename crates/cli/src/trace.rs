//! `belfry trace`: a ladder that is drawn as it happens.
//!
//! The node sends each message that concerns the account as a line, its own and those of other nodes. A `Drawing` gives each party a place and draws arrows.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use config::{Config, parse_duration};
use control::{Ask, Client, Listing, Request, Response, TraceLine};
use net::clock::Clock;
use stdx::Instant;
use store::Address;

use super::account::address;
use super::error::CliError;
use super::table::{date, printable};

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// user@domain, or user in the default domain
    account: String,
    /// Also where there is no such account: a number, or a caller of another domain
    #[arg(long)]
    any: bool,
    /// Whole messages, too; what a password could be guessed from is masked
    #[arg(long)]
    full: bool,
    /// Only messages that this node handles, and not those of the other nodes of its farm
    #[arg(long)]
    this_node: bool,
    /// End after so many messages [default: at Ctrl-C]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End after this time, as 30s or 10m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a time, as 30s or 10m".into())
}

impl TraceArgs {
    // Three ends: Ctrl-C, `--count` lines, and the time of `--for`, which bounds each wait for a line.
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let account = address(&self.account, config)?;
        let mut client = Client::connect(&config.server.control)?;
        // A slip in the name would otherwise show an empty trace, and look like silence.
        if !self.any {
            find(&mut client, &account)?;
        }
        let farm = !self.this_node;
        match client.ask(&Request::Trace { account: account.clone(), full: self.full, farm })? {
            Response::Tracing => {}
            other => return Err(client.unexpected(&other).into()),
        }
        // To standard error: the lines alone are the output.
        eprintln!("tracing {account}; Ctrl-C ends it");
        let clock = Clock::new();
        let end = self.duration.map(|duration| clock.now() + duration);
        let mut drawing = Drawing::default();
        let mut seen = 0;
        while self.count.is_none_or(|count| seen < count) {
            let left = end.map(|end| end.since(clock.now()));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            // Set for each line anew: the time that is left, or none for a trace without an end.
            client.set_patience(left)?;
            let mut out = io::stdout().lock();
            match client.next_line()? {
                Some(Response::Line(line)) => {
                    seen += 1;
                    if self.json {
                        writeln!(out, "{}", serde_json::to_string(&line)?)?;
                    } else {
                        drawing.draw(&line, &mut out)?;
                    }
                }
                // As above.
                Some(Response::TraceNode { name, takes_part: true }) => eprintln!("{name} answers again"),
                Some(Response::TraceNode { name, .. }) => {
                    eprintln!("{name} does not answer: its messages are not shown");
                }
                Some(Response::Missed(missed)) => writeln!(out, "… {missed} messages not shown")?,
                Some(other) => return Err(client.unexpected(&other).into()),
                None if end.is_some_and(|end| clock.now() >= end) => return Ok(()),
                None => {
                    return Err(CliError::Other(
                        "the node ended the trace; it may be stopping: see belfry status".into(),
                    ));
                }
            }
            // Each line at once, also into a pipe: a trace is read while it goes on.
            out.flush()?;
        }
        Ok(())
    }
}

/// Nothing would ever be seen of an account that is not there.
fn find(client: &mut Client, account: &Address) -> Result<(), CliError> {
    match client.ask(&Request::Ask(Ask::Account { address: account.clone() }))? {
        Response::Listing(Listing::Account(Some(_))) => Ok(()),
        Response::Listing(Listing::Account(None)) => Err(CliError::Other(format!(
            "there is no account {account}; see those there are with: belfry account list. \
             --any traces a number or a caller of another domain"
        ))),
        other => Err(client.unexpected(&other).into()),
    }
}

/// Arrows, one below the other, as wide as the widest so far. The party seen first stands left.
#[derive(Default)]
pub(super) struct Drawing {
    /// Parties in the order in which they were seen: the place of one decides the direction of its arrows.
    names: Vec<Box<str>>,
    /// The time of the first line; the lines show the milliseconds since.
    started: Option<Instant>,
    /// Columns of the widest name, label and node so far.
    name_width: usize,
    label_width: usize,
    node_width: usize,
    /// The call or session that the last line was of.
    of: Box<str>,
}

impl Drawing {
    /// Draws one message as an arrow, below a heading where the call or session is another than that of the line before.
    pub(super) fn draw(&mut self, line: &TraceLine, out: &mut impl Write) -> io::Result<()> {
        let at = line.at();
        let started = *self.started.get_or_insert(at);
        let (kind, of) = match &line.session {
            Some(session) => ("Session", session),
            None => ("Call-ID", &line.call_id),
        };
        if self.of != *of {
            self.of = of.clone();
            writeln!(out, "{}  {kind} {}", date(at.unix_seconds()), printable(of))?;
        }
        // Both are placed before they are compared, so that the sender of the first message stands left.
        let (from, to) = (self.place(&line.from), self.place(&line.to));
        let rightwards = from <= to;
        let (left, right) = if rightwards { (&line.from, &line.to) } else { (&line.to, &line.from) };
        // Texts come from peers: control characters could drive the terminal.
        let (left, label) = (printable(left), printable(&line.label));
        // Columns only grow, as lines that are printed cannot be moved; the picture settles after a few
        // messages.
        self.name_width = self.name_width.max(width(&left));
        self.label_width = self.label_width.max(width(&label));
        let pad = "─".repeat(self.label_width - width(&label));
        let gap = " ".repeat(self.name_width - width(&left));
        let arrow = if rightwards {
            format!("──{label}{pad}──▶")
        } else {
            format!("◀──{label}{pad}──")
        };
        // Clocks of nodes differ: a line may be older than the first.
        let millis = (at.as_micros().cast_signed() - started.as_micros().cast_signed()) / 1_000;
        write!(out, "{millis:>9}ms  ")?;
        if let Some(node) = line.node.as_deref().map(printable) {
            self.node_width = self.node_width.max(width(&node));
            write!(out, "{node}{}  ", " ".repeat(self.node_width - width(&node)))?;
        }
        writeln!(out, "{left}{gap} {arrow} {}", printable(right))?;
        if let Some(message) = &line.message {
            for text in message.lines() {
                writeln!(out, "             │ {}", printable(text))?;
            }
        }
        Ok(())
    }

    /// The place of a party; a new one gets the next.
    fn place(&mut self, name: &str) -> usize {
        /// Names kept; beyond, new ones stand right.
        const NAMES: usize = 64;
        self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            if self.names.len() < NAMES {
                self.names.push(name.into());
            }
            self.names.len()
        })
    }
}

fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(millis: u64, from: &str, to: &str, label: &str) -> TraceLine {
        TraceLine {
            at_micros: 1_800_000_000_000_000 + millis * 1_000,
            from: from.into(),
            to: to.into(),
            label: label.into(),
            call_id: "c1@host".into(),
            message: None,
            session: None,
            node: None,
        }
    }

    #[test]
    fn a_call_is_drawn_as_it_happens() {
        let mut drawing = Drawing::default();
        let mut out = Vec::new();
        for line in [
            line(0, "udp:a", "belfry", "INVITE"),
            line(2, "belfry", "udp:b", "INVITE"),
            line(20, "udp:b", "belfry", "180 (INVITE)"),
            line(2_020, "belfry", "udp:a", "\u{1b}200"),
        ] {
            drawing.draw(&line, &mut out).unwrap();
        }
        let picture = [
            "2027-01-15 08:00:00  Call-ID c1@host",
            "        0ms  udp:a ──INVITE──▶ belfry",
            "        2ms  belfry ──INVITE──▶ udp:b",
            "       20ms  belfry ◀──180 (INVITE)── udp:b",
            "     2020ms  udp:a  ◀──·200────────── belfry",
        ];
        assert_eq!(String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(), picture);
    }

    #[test]
    fn each_line_of_a_farm_has_its_node_and_the_time_of_that_nodes_clock() {
        let mut drawing = Drawing::default();
        let mut out = Vec::new();
        for (node, millis, label) in
            [("n1", 100, "INVITE"), ("edge-2", 98, "100 (INVITE)"), ("n1", 105, "BYE")]
        {
            let line = TraceLine { node: Some(node.into()), ..line(millis, "a", "belfry", label) };
            drawing.draw(&line, &mut out).unwrap();
        }
        let picture = [
            "2027-01-15 08:00:00  Call-ID c1@host",
            "        0ms  n1  a ──INVITE──▶ belfry",
            "       -2ms  edge-2  a ──100 (INVITE)──▶ belfry",
            "        5ms  n1      a ──BYE───────────▶ belfry",
        ];
        assert_eq!(String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(), picture);
    }

    #[test]
    fn a_session_of_chat_is_drawn_in_the_same_way() {
        let mut drawing = Drawing::default();
        let mut out = Vec::new();
        let client = "alice@example.test/desk";
        for line in [line(0, client, "belfry", "presence"), line(5, "belfry", client, "message chat body")] {
            let line = TraceLine { session: Some(client.into()), call_id: Box::default(), ..line };
            drawing.draw(&line, &mut out).unwrap();
        }
        let picture = [
            "2027-01-15 08:00:00  Session alice@example.test/desk",
            "        0ms  alice@example.test/desk ──presence──▶ belfry",
            "        5ms  alice@example.test/desk ◀──message chat body── belfry",
        ];
        assert_eq!(String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(), picture);
    }
}
