//! `belfry status`.
//!
//! One request brings all figures of the node, a set for each shard; sums are made here. Lines about services that were never used are left out, and so are
//! troubles that there are not.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use config::Config;
use control::{CertificateSource, Client, Listening, NodeState, Request, Response, ShardCounters, Status};
use stdx::attempts::Cause;

use super::error::CliError;
use super::farm_sums;
use super::table::{Table, date, elapsed, grouped, printable};

/// Attempts that were refused without a look at the password.
const TOO_MANY: &str = Cause::TooManyAttempts.name();

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// One JSON object, with every figure
    #[arg(long)]
    json: bool,
    /// Again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Sums of all nodes of the farm, and a line for each node; with --json an object a line for each node
    #[arg(long)]
    farm: bool,
}

impl StatusArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let mut client = Client::connect(&config.server.control)?;
        let screen = console::Term::stdout();
        loop {
            // Another request, with another answer: sums of nodes have neither shards nor rates.
            if self.farm {
                farm_sums::show(&mut client, self.json, self.watch && screen.is_term())?;
                if !self.watch {
                    return Ok(());
                }
                pause(&mut client)?;
                continue;
            }
            let status = match client.ask(&Request::Status)? {
                Response::Status(status) => status,
                other => return Err(client.unexpected(&other).into()),
            };
            let mut out = io::stdout().lock();
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&status)?)?;
            } else {
                // Into a pipe or file each second is appended.
                if self.watch && screen.is_term() {
                    screen.clear_screen()?;
                }
                print(&status, &mut out)?;
            }
            out.flush()?;
            if !self.watch {
                return Ok(());
            }
            pause(&mut client)?;
        }
    }
}

/// Waits a second, and ends at once when the node does: nothing comes unasked.
fn pause(client: &mut Client) -> Result<(), CliError> {
    client.set_patience(Some(Duration::from_secs(1)))?;
    // Nothing is asked, so nothing comes: the patience or the end of the node ends this.
    client.next_line()?;
    Ok(client.set_patience(Some(control::limits::CONTROL_PATIENCE))?)
}

/// One screen of text: the node as a whole first, then rates, then a row for each shard. Counters are read at different moments, so more calls may
/// be up than there are.
fn print(status: &Status, out: &mut impl Write) -> Result<(), CliError> {
    let state = match status.node.state {
        NodeState::Running => "running",
        NodeState::Draining => "draining: takes nothing new",
    };
    let sum = |read: fn(&ShardCounters) -> u64| grouped(status.sum(read));
    let (version, pid, up) = (&status.version, status.pid, elapsed(status.uptime_seconds));
    writeln!(out, "belfry {version}, {state}, pid {pid}, up {up}")?;
    print_listeners(status, out)?;
    writeln!(out, "domains        {}", status.node.domains.join(" "))?;
    writeln!(
        out,
        "calls          {} up, {} being set up",
        sum(|s| s.calls_up),
        sum(|s| s.calls - s.calls_up.min(s.calls))
    )?;
    let voice = status.sum(|s| s.voice_calls_started + s.voice_calls);
    if voice > 0 {
        let (calls, ports, prompts) =
            (sum(|s| s.voice_calls), sum(|s| s.voice_ports), sum(|s| s.voice_prompts));
        writeln!(out, "voice          {calls} calls with {ports} pairs of ports, {prompts} speak")?;
        let (rooms, queues, members) =
            (sum(|s| s.voice_rooms), sum(|s| s.voice_queues), sum(|s| s.voice_members));
        writeln!(out, "rooms          {rooms} conferences, {queues} queues, {members} members")?;
        let (recordings, streams) = (sum(|s| s.voice_recordings), sum(|s| s.voice_streams));
        writeln!(out, "sound          {recordings} recordings, {streams} streams")?;
    }
    if status.sum(|s| s.xmpp_connections_accepted + s.xmpp_sessions) > 0 {
        let (sessions, connections) = (sum(|s| s.xmpp_sessions), sum(|s| s.xmpp_connections));
        writeln!(out, "chat           {sessions} sessions, {connections} connections")?;
        let (rooms, occupants) = (sum(|s| s.xmpp_rooms), sum(|s| s.xmpp_occupants));
        let (received, sent) = (sum(|s| s.xmpp_stanzas_in), sum(|s| s.xmpp_stanzas_out));
        writeln!(out, "chat rooms     {rooms} with {occupants} occupants")?;
        writeln!(out, "stanzas        {received} received, {sent} sent")?;
    }
    let servers = |s: &ShardCounters| s.xmpp_servers_connections_out + s.xmpp_servers_connections_in;
    if status.sum(servers) > 0 {
        let (ours, theirs) = (sum(|s| s.xmpp_servers_out), sum(|s| s.xmpp_servers_in));
        let waiting = sum(|s| s.xmpp_servers_waiting);
        writeln!(
            out,
            "servers        {ours} connections to others, {theirs} of others, {waiting} stanzas wait"
        )?;
    }
    if status.sum(|s| s.xmpp_components + s.xmpp_components_refused) > 0 {
        let (connections, refused) = (sum(|s| s.xmpp_components), sum(|s| s.xmpp_components_refused));
        writeln!(out, "components     {connections} connections, {refused} refused")?;
    }
    writeln!(out, "registrations  {} contacts of {} addresses", sum(|s| s.bindings), sum(|s| s.addresses))?;
    writeln!(out, "transactions   {}", sum(|s| s.transactions))?;
    writeln!(out, "connections    {}", sum(|s| s.connections))?;
    print_sign_ins(status, out)?;
    writeln!(out, "memory         {} MiB resident", grouped(status.resident_bytes >> 20))?;
    print_trouble(status, out)?;
    print_targets(status, out)?;
    writeln!(out)?;
    rate_table(status).print(out)?;
    print_latencies(status, out)?;
    Ok(shard_table(status).print(out)?)
}

/// All listeners by service, those of SIP first.
fn print_listeners(status: &Status, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "listening      {}", status.node.listeners.join(" "))?;
    for Listening { service, at } in status.node.services.iter().filter(|one| &*one.service != "SIP") {
        let name = format!("{service} at");
        writeln!(out, "{name:<14} {}", at.join(" "))?;
    }
    Ok(())
}

/// Failed sign-ins, when there are any.
fn print_sign_ins(status: &Status, out: &mut impl Write) -> io::Result<()> {
    // The node counts by service and cause; here the causes of a service are summed.
    let mut services: Vec<(&str, u64)> = Vec::new();
    for failures in &status.node.sign_in_failures {
        match services.iter_mut().find(|(service, _)| *service == &*failures.service) {
            Some((_, count)) => *count += failures.count,
            None => services.push((&failures.service, failures.count)),
        }
    }
    if services.is_empty() {
        return Ok(());
    }
    // Named apart from the rest: their passwords were not looked at.
    let refused = status.node.sign_in_failures.iter().filter(|row| *row.cause == *TOO_MANY);
    let refused: u64 = refused.map(|row| row.count).sum();
    let all: u64 = services.iter().map(|(_, count)| count).sum();
    let each: Vec<_> =
        services.iter().map(|(service, count)| format!("{service} {}", grouped(*count))).collect();
    let (all, refused, each) = (grouped(all), grouped(refused), each.join(", "));
    writeln!(
        out,
        "sign-ins       {all} failed, {refused} of them not looked at ({each}); see `belfry blocks`"
    )
}

/// The end of the certificate, its origin, and what is wrong with it.
fn print_certificate(status: &Status, out: &mut impl Write) -> io::Result<()> {
    let Some(certificate) = &status.node.certificate else { return Ok(()) };
    let source = match certificate.source {
        CertificateSource::File => "from a file",
        CertificateSource::Acme => "ordered by the node",
        CertificateSource::SelfSigned => "made by the node itself",
    };
    let until = certificate.ends_at.map_or("an unknown time".into(), |end| format!("{} UTC", date(end)));
    writeln!(out, "certificate    {} until {until}, {source}", printable(&certificate.name))?;
    if let Some(trouble) = certificate.trouble() {
        writeln!(out, "               {}", printable(&trouble))?;
    }
    if let Some(seconds) = certificate.next_order_seconds {
        writeln!(out, "               the next order is due in {}", elapsed(seconds))?;
    }
    Ok(())
}

/// The receivers of call records, and the records that wait for them.
fn print_call_exports(status: &Status, out: &mut impl Write) -> io::Result<()> {
    for export in &status.node.call_exports {
        let (sent, waiting) = (grouped(export.sent), grouped(export.waiting));
        write!(out, "call records   {sent} sent to {}", printable(&export.receiver))?;
        match export.waiting {
            0 => write!(out, ", none waits")?,
            _ => write!(out, ", {waiting} wait, the oldest for {}", elapsed(export.lag_seconds))?,
        }
        if export.dropped > 0 {
            write!(out, ", {} dropped", grouped(export.dropped))?;
        }
        writeln!(out)?;
        if let Some(failure) = &export.failure {
            writeln!(out, "               not taken: {}", printable(failure))?;
        }
    }
    Ok(())
}

/// The store of objects, and the files that wait for it.
fn print_object_storage(status: &Status, out: &mut impl Write) -> io::Result<()> {
    let Some(storage) = &status.node.object_storage else { return Ok(()) };
    let (put, waiting) = (grouped(storage.put), grouped(storage.waiting));
    writeln!(out, "files          {put} put into {}, {waiting} wait", printable(&storage.store))?;
    match &storage.failure {
        Some(failure) => writeln!(out, "               the store fails: {}", printable(failure)),
        None => Ok(()),
    }
}

/// The export of traces of calls.
fn print_telemetry(status: &Status, out: &mut impl Write) -> io::Result<()> {
    let Some(telemetry) = &status.node.telemetry else { return Ok(()) };
    let (sent, lost) = (grouped(telemetry.sent), telemetry.dropped + telemetry.missed);
    write!(out, "spans          {sent} sent to {}", printable(&telemetry.collector))?;
    if lost > 0 {
        write!(out, ", {} dropped or not made", grouped(lost))?;
    }
    writeln!(out)?;
    match &telemetry.failure {
        Some(failure) => writeln!(out, "               not taken: {}", printable(failure)),
        None => Ok(()),
    }
}

/// Prints the certificate, and conditions that need an operator's attention, if any.
fn print_trouble(status: &Status, out: &mut impl Write) -> io::Result<()> {
    print_certificate(status, out)?;
    let store = &status.node.store;
    let waiting = format!(
        "{} writes and {} reads waiting",
        grouped(store.writes_waiting),
        grouped(store.reads_waiting)
    );
    if let Some(why) = &status.node.council_away {
        let why = printable(why);
        writeln!(out, "farm           the council is away ({why}): no node takes over from another")?;
    }
    if let Some(why) = &store.unwritable {
        writeln!(out, "not writable   for {} s: {}", store.unwritable_seconds, printable(why))?;
    }
    if let Some(why) = &store.slow {
        writeln!(out, "slow database  for {} s: {}", store.slow_seconds, printable(why))?;
    }
    match &store.last_failure {
        Some(failure) => writeln!(
            out,
            "database       {waiting}, {} failures, the last: {}",
            grouped(store.failures),
            printable(failure)
        )?,
        None => writeln!(out, "database       {waiting}")?,
    }
    print_call_exports(status, out)?;
    print_object_storage(status, out)?;
    print_telemetry(status, out)?;
    // Always shown, for a zero is good news; those below only when there are any.
    let drops = status.sum(|shard| shard.kernel_drops);
    let advice = if drops > 0 { ": raise [sip] udp_receive_buffer and net.core.rmem_max" } else { "" };
    writeln!(out, "drops          {} datagrams by the kernel{advice}", grouped(drops))?;
    let unaccepted: u64 = status.node.admissions.iter().map(|admission| admission.unaccepted).sum();
    if unaccepted > 0 {
        let count = grouped(unaccepted);
        writeln!(out, "not accepted   {count} connections, for want of open files: raise LimitNOFILE")?;
    }
    for (name, count) in [
        ("shed", status.sum(|shard| shard.shed)),
        ("not sent", status.sum(|shard| shard.send_failures)),
        ("chat shed", status.sum(|shard| shard.xmpp_shed)),
        ("chat overflows", status.sum(|shard| shard.xmpp_overflows)),
        ("panics", status.sum(|shard| shard.panics)),
    ] {
        if count > 0 {
            writeln!(out, "{name:<14} {}", grouped(count))?;
        }
    }
    Ok(())
}

/// Targets of routes that are probed; only those that do not answer are named.
fn print_targets(status: &Status, out: &mut impl Write) -> io::Result<()> {
    let targets = &status.node.targets;
    if targets.is_empty() {
        return Ok(());
    }
    let down: Vec<_> = targets.iter().filter(|target| !target.up).map(|target| &*target.target).collect();
    match down.as_slice() {
        [] => writeln!(out, "targets        all {} answer", targets.len()),
        down => writeln!(
            out,
            "targets        {} of {} do not answer: {}",
            down.len(),
            targets.len(),
            down.join(" ")
        ),
    }
}

/// Calls, registrations and messages in a second, over three windows, and since the start.
fn rate_table(status: &Status) -> Table {
    // The second list has the columns that stand to the right.
    let mut table = Table::new(&["a second", "last 1 s", "10 s", "60 s", "total"], &[1, 2, 3, 4]);
    let total = |name: &str| match name {
        "calls" => status.sum(|s| s.calls_started),
        "calls_answered" => status.sum(|s| s.calls_answered),
        "calls_failed" => status.sum(|s| s.calls_failed),
        "registrations" => status.sum(|s| s.registrations),
        "messages_in" => status.sum(|s| s.datagrams_in + s.stream_messages_in),
        // `messages_out`.
        _ => status.sum(|s| s.datagrams_out + s.stream_messages_out),
    };
    for rate in &status.rates {
        table.row([
            rate.name.replace('_', " "),
            format!("{:.1}", rate.last_1s),
            format!("{:.1}", rate.last_10s),
            format!("{:.1}", rate.last_60s),
            grouped(total(&rate.name)),
        ]);
    }
    table
}

/// The latencies of the last ten seconds that clients, or messages for a shard, met, between the tables of rates and shards; nothing of
/// those without any.
fn print_latencies(status: &Status, out: &mut impl Write) -> Result<(), CliError> {
    writeln!(out)?;
    if status.latencies.iter().all(|latency| latency.count == 0) {
        return Ok(());
    }
    let mut table = Table::new(&["latency, 10 s", "p50", "p99", "of"], &[1, 2, 3]);
    let milliseconds = |micros: Option<u64>| {
        micros.map_or(String::new(), |micros| format!("{}.{:01} ms", micros / 1_000, micros % 1_000 / 100))
    };
    for latency in status.latencies.iter().filter(|latency| latency.count > 0) {
        table.row([
            latency.latency.name().replace('_', " "),
            milliseconds(latency.p50_micros),
            milliseconds(latency.p99_micros),
            grouped(latency.count),
        ]);
    }
    table.print(out)?;
    Ok(writeln!(out)?)
}

/// A shard that differs much from the others shows an uneven load.
fn shard_table(status: &Status) -> Table {
    let headings = ["shard", "calls up", "transactions", "contacts", "connections", "messages in", "drops"];
    let mut table = Table::new(&headings, &[0, 1, 2, 3, 4, 5, 6]);
    for shard in &status.node.shards {
        let figures = [
            u64::from(shard.shard),
            shard.calls_up,
            shard.transactions,
            shard.bindings,
            shard.connections,
            shard.datagrams_in + shard.stream_messages_in,
            shard.kernel_drops,
        ];
        table.row(figures.map(grouped));
    }
    table
}
