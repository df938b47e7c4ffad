//! From `argv` to [`ParsedArguments`].

use lab_sip::options::{Options, Protocol, RemoteTarget, Sockets};

use super::flags::{self, FlagAction, ParsedArguments};
use super::target::TargetLookup;
use super::value;

/// A mistake in a command line, in SIPp's words where it has any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the arguments after the program's name. Actions that only print win over everything behind them.
pub fn parse(program: &str, arguments: &[String]) -> Result<ParsedArguments, UsageError> {
    let mut asked = ParsedArguments::default();
    // `ringer sip` is two words.
    asked.options.command_line =
        program.split(' ').map(str::to_owned).chain(arguments.iter().cloned()).collect();
    let mut rest = arguments.iter().map(String::as_str).peekable();
    // Flags and the target may stand in any order, as with SIPp.
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            take_target(&mut asked, word)?;
            continue;
        }
        let (name, inline) = split_inline(word);
        let flag = flags::find(name).ok_or_else(|| unknown(program, word))?;
        let mut values = Vec::with_capacity(2);
        values.extend(inline);
        while values.len() < flag.arguments() {
            values.push(rest.next().ok_or_else(|| {
                UsageError(format!("Missing argument for param '{word}'.\nUse '{program} -h' for details"))
            })?);
        }
        if values.len() > flag.arguments() {
            return Err(UsageError(format!("{name} takes no value")));
        }
        (flag.apply)(&mut asked, &values).map_err(|why| UsageError(format!("{name}, {why}")))?;
        match asked.action {
            // `-h stat` is the only flag with an optional value.
            FlagAction::Help if rest.peek() == Some(&"stat") => {
                asked.action = FlagAction::HelpStat;
                return Ok(asked);
            }
            // `--json` may stand behind it.
            FlagAction::Run | FlagAction::Check | FlagAction::Explain(_) => {}
            _ => return Ok(asked),
        }
    }
    finish(asked)
}

/// `--report=FILE`, for long options only: SIPp's values may hold an equals sign.
fn split_inline(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--")
        && let Some((name, value)) = word.split_once('=')
    {
        return (name, Some(value));
    }
    (word, None)
}

/// A second bare word is nearly always the value of a misspelt flag, hence the hint.
fn take_target(asked: &mut ParsedArguments, word: &str) -> Result<(), UsageError> {
    match &asked.remote {
        Some(first) => Err(UsageError(format!(
            "Two targets: '{first}' and '{word}'; a flag before the second may be missing its dash"
        ))),
        None => {
            asked.remote = Some(word.to_owned());
            Ok(())
        }
    }
}

/// SIPp's sentence, with the nearest flag added.
fn unknown(program: &str, word: &str) -> UsageError {
    let hint = flags::nearest(word).map_or_else(String::new, |near| format!(" Did you mean '{near}'?"));
    UsageError(format!("Invalid argument: '{word}'.{hint}\nUse '{program} -h' for details"))
}

/// Checks and defaults that depend on several flags.
fn finish(mut asked: ParsedArguments) -> Result<ParsedArguments, UsageError> {
    let network = &mut asked.options.network;
    let like = network.local.first().copied();
    let port = default_port(network.transport.protocol);
    // The target is resolved only now, as the transport, `-i` and `--dns` may stand behind it.
    if let Some(text) = &asked.remote {
        let (host, _) = value::host_port(text).map_err(UsageError)?;
        let protocol = network.transport.protocol;
        let lookup = TargetLookup { protocol, default_port: port, like, server: asked.dns };
        let addresses = lookup.addresses(text).map_err(UsageError)?;
        asked.options.remote = Some(RemoteTarget { host, address: addresses[0] });
        if asked.round_robin {
            network.in_turn = addresses;
        }
    }
    if let Some(text) = &asked.rsa {
        network.remote_sending = Some(value::address(text, port, like).map_err(UsageError)?);
    }
    // SIPp raises the rate at the period of its statistics unless told otherwise.
    if !asked.rate_interval_given {
        asked.options.rate.interval = asked.options.files.stat_period;
    }
    check(&asked).map_err(UsageError)?;
    let Options { network, injection, .. } = &mut asked.options;
    // `-t ui` with at most one address takes source addresses from the first field of the injection file.
    if network.transport.sockets == Sockets::PerAddress && network.local.len() < 2 {
        injection.ip_field.get_or_insert(0);
    }
    Ok(asked)
}

/// SIPp's 5060 for SIP's own transports, HTTP's for WebSocket (RFC 7118 §4 starts from RFC 6455's defaults).
fn default_port(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Udp | Protocol::Tcp | Protocol::Tls => 5060,
        Protocol::Ws => 80,
        Protocol::Wss => 443,
    }
}

/// Flags that do not go together.
fn check(asked: &ParsedArguments) -> Result<(), String> {
    let options = &asked.options;
    if options.rate.users.is_some() && options.rate.limit.is_some() {
        return Err("Can not set open call limit (-l) when -users is specified.".to_owned());
    }
    if options.media.min_port > options.media.max_port {
        return Err("-min_rtp_port is above -max_rtp_port".to_owned());
    }
    let shares_connection =
        options.network.transport.is_reliable() && options.network.transport.sockets != Sockets::PerCall;
    if options.network.in_turn.len() > 1 && shares_connection {
        return Err("-round_robin needs UDP or a connection a call (-t tn, ln, wn or xn): the calls of -t t1, l1, w1 \
                    and x1 share one connection to one address"
            .to_owned());
    }
    let extended = options.three_pcc.master.is_some() || options.three_pcc.slave.is_some();
    if extended && options.three_pcc.peers.is_empty() {
        return Err("-master and -slave need -slave_cfg".to_owned());
    }
    let per_address = options.network.transport.sockets == Sockets::PerAddress;
    if per_address && options.injection.files.is_empty() && options.network.local.len() < 2 {
        return Err("-t ui needs -inf, a file with a source address a line, or --source".to_owned());
    }
    // A file is known by its name as written or by the last part of it, so that `-inf ./a.csv` goes with `-infindex a.csv`.
    for (file, _) in &options.injection.indexes {
        let known = options
            .injection
            .files
            .iter()
            .any(|known| known == file || known.file_name() == file.file_name());
        if !known {
            return Err(format!("Could not find file for -infindex: {}", file.display()));
        }
    }
    Ok(())
}
