//! `ringer xmpp`: users from flags, the rest as `ringer sip`.
//!
//! Flags are read into `XmppFlags` (`flags`), checked together, and become a [`Setup`] whose `chat` is the load; the scenario in it only names
//! the timers. `ringer find`, plans and worker processes call `build` too.

mod accounts;
mod files;
mod flags;

use std::sync::Arc;
use std::time::Duration;

use lab_report::shell;
use lab_sip::options::RemoteTarget;
use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{Scenario, compile_text};
use lab_xmpp::{
    ACTIONS, HttpTransport, SaslMechanism, StreamSecurity, TIMERS, UserAction, UserDirectory, XmppLoad,
};

use self::files::{listed, stanzas};
pub(super) use self::flags::FLAGS;
use self::flags::{USERS, XmppFlags};
use super::flags::{LiveView, Outputs};
use super::value;
use super::{ExitCode, sip};
use crate::engine::Setup;

/// Thresholds of every run: nothing lost, nothing twice.
/// They hold beside those that flags give.
const ALWAYS: [&str; 5] =
    ["lost == 0", "duplicated == 0", "reordered == 0", "misdelivered == 0", "unseen == 0"];

/// `accounts` and `--actions` take the place of a load.
pub(super) fn main(program: &str, arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        None => {
            eprint!("{}", help(program));
            return ExitCode::Fatal;
        }
        Some("--actions") => {
            for (name, _, about) in ACTIONS {
                say_line!("  {name:<18} {about}");
            }
            return ExitCode::Success;
        }
        Some("accounts") => return make_accounts(program, &arguments[1..]),
        Some(_) => {}
    }
    if asks_for_help(arguments) {
        say_text!("{}", help(program));
        return ExitCode::Success;
    }
    match build(arguments) {
        Ok((setup, outputs)) => sip::run(setup, &outputs),
        Err(mistake) => {
            eprintln!("{program}: {mistake}");
            ExitCode::Fatal
        }
    }
}

/// `--help` among the flags, wherever it stands; not as the value of one.
fn asks_for_help(words: &[String]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--help" || word == "-h" {
            return true;
        }
        // Every flag has a value, which may look like a request for help.
        if FLAGS.iter().any(|flag| flag.name == word) {
            words.next();
        }
    }
    false
}

/// `ringer xmpp accounts`.
fn make_accounts(program: &str, words: &[String]) -> ExitCode {
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        // Without a word it is a mistake, yet the help says what is expected.
        say_text!("{}", accounts::help(program));
        return if words.is_empty() { ExitCode::Fatal } else { ExitCode::Success };
    }
    match accounts::write(words) {
        Ok(said) => {
            say_line!("{said}");
            ExitCode::Success
        }
        Err(mistake) => {
            eprintln!("{program} accounts: {mistake}");
            ExitCode::Fatal
        }
    }
}

/// The words of `ringer xmpp accounts` are understood; nothing is written.
#[cfg(test)]
pub(super) fn read_accounts(words: &[String]) -> Result<(), String> {
    accounts::AccountsArguments::parse(words).map(drop)
}

/// The units of the flags, and where their defaults stand.
pub(super) const UNITS: &str = "TIME is a number with ms, s, m or h behind it; without, seconds. RATE is a number a second. The default is in parentheses.";

/// The help, from the table of flags.
fn help(program: &str) -> String {
    let mut text = format!(
        "usage: {program} HOST[:PORT] [FLAG VALUE ...]\n       {program} accounts ...    write accounts and rosters for a server to import\n       {program} --actions       what users can do\n\nUsers sign in, talk, and account for every message and presence.\n{UNITS}\n\n"
    );
    for flag in FLAGS {
        let head = format!("{} {}", flag.name, flag.value);
        text += &format!("  {head:<24} {}\n", flag.about);
    }
    text
}

/// From words to a load, for this command and for plans.
///
/// # Errors
/// The fault, and what was expected.
pub(crate) fn build(words: &[String]) -> Result<(Setup, Outputs), String> {
    let mut told = XmppFlags::new()?;
    told.options.command_line = words.to_vec();
    told.outputs.live = LiveView::Auto;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match FLAGS.iter().find(|flag| flag.name == word) {
            Some(flag) => {
                let given =
                    words.next().cloned().ok_or_else(|| format!("{word}: expected {}", flag.value))?;
                // A flag that is given twice counts as it was given last, unless its setter collects values.
                (flag.set)(&mut told, given).map_err(|error| format!("{word} {error}"))?;
            }
            None if word.starts_with('-') => {
                return Err(format!("unknown flag {word}: ringer xmpp --help lists them all"));
            }
            None if told.target.is_none() => told.target = Some(word.clone()),
            None => return Err(format!("{word:?} is one target too many")),
        }
    }
    setup(told)
}

/// The users by a pattern of names, or of a file, with the monitors numbered behind them. Also for `ringer xmpp accounts`.
fn people(told: &XmppFlags, domain: &str) -> Result<UserDirectory, String> {
    let people = match &told.users_file {
        Some(file) => listed(told, file, domain)?,
        None => {
            // Without `--name` and `--password`: user1 to userN, all with one password.
            let name = told.name.as_deref().unwrap_or("user{n}");
            let names = (name, told.password.as_deref().unwrap_or("secret"));
            UserDirectory::new(told.users.unwrap_or(USERS), told.contacts, told.first, names, domain)?
        }
    };
    people.with_monitors(told.monitors.pairs)
}

/// Values that are each valid and do not go together, or are out of range.
fn check(told: &XmppFlags) -> Result<(), String> {
    for (name, rate) in [("--logins", told.logins), ("--registrations", told.registrations)] {
        // NaN compares with nothing, so it is asked for by name.
        if rate.is_nan() || rate <= 0.0 {
            return Err(format!("{name} {rate}: expected more than 0"));
        }
    }
    // A pair would not end a step before the next is due.
    if told.monitors.every < Duration::from_millis(10) {
        return Err("--monitor-every: expected 10ms at least".to_owned());
    }
    // The server names users that sign in anonymously, so they have no contacts.
    let known = [
        (told.contacts > 0, "--contacts 0"),
        (told.monitors.pairs > 0, "--monitors 0"),
        (told.register || told.unregister, "no registration"),
    ];
    match known.iter().find(|(is_wrong, _)| *is_wrong && told.mechanism == SaslMechanism::Anonymous) {
        Some((_, expected)) => Err(format!(
            "--mechanism ANONYMOUS: expected {expected}: the users do not know each other's names"
        )),
        None => Ok(()),
    }
}

/// The port of the server when the flags name none.
fn port(told: &XmppFlags, web: Option<&HttpTransport>) -> u16 {
    match (told.security, web) {
        // 5222 is the port of RFC 6120, 5223 that of direct TLS by custom; 5280 and 5443 are those of HTTP and HTTPS at ejabberd.
        (StreamSecurity::Tls, Some(_)) => 5443,
        (_, Some(_)) => 5280,
        (StreamSecurity::Tls, None) => 5223,
        (_, None) => 5222,
    }
}

/// WebSocket or BOSH: TLS is then HTTPS, and STARTTLS has no place.
fn web(told: &XmppFlags) -> Result<Option<HttpTransport>, String> {
    let (flag, path, web): (_, _, fn(String) -> HttpTransport) = match (&told.websocket, &told.bosh) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err("--websocket and --bosh: expected one of the two".to_owned()),
        (Some(path), None) => ("--websocket", path, HttpTransport::WebSocket),
        (None, Some(path)) => ("--bosh", path, HttpTransport::Bosh),
    };
    if told.security == StreamSecurity::StartTls {
        return Err(format!("{flag} with --tls starttls: expected --tls none or --tls direct"));
    }
    if !path.starts_with('/') {
        return Err(format!("{flag} {path:?}: expected a path, as /bosh"));
    }
    Ok(Some(web(path.clone())))
}

/// The load, with defaults that depend on other flags: services stand below the users' domain.
fn setup(told: XmppFlags) -> Result<(Setup, Outputs), String> {
    check(&told)?;
    let target = told.target.as_deref().ok_or("no target: expected HOST or HOST:PORT")?;
    let web = web(&told)?;
    let port = port(&told, web.as_ref());
    let (host, _) = value::host_port(target)?;
    let address = value::address(target, port, None)?;
    let domain = told.domain.clone().unwrap_or_else(|| host.clone());
    let people = people(&told, &domain)?;
    let rooms_domain = told.rooms_domain.unwrap_or_else(|| format!("conference.{domain}"));
    let pubsub_domain = told.pubsub_domain.unwrap_or_else(|| format!("pubsub.{domain}"));
    let stanzas = stanzas(&told.stanzas)?;
    if told.mix.has(UserAction::Raw) && stanzas.is_empty() {
        return Err("raw in --mix: expected --stanza FILE with what is sent".to_owned());
    }
    let mut options = told.options;
    options.remote = Some(RemoteTarget { host, address });
    options.rate.calls = told.logins;
    options.behaviour.no_stdin = true;
    let mut outputs = told.outputs;
    outputs.thresholds.extend(ALWAYS.map(str::to_owned));
    let chat = XmppLoad {
        target: address,
        people,
        mechanism: told.mechanism,
        security: told.security,
        web,
        logins: told.logins,
        mix: told.mix,
        think: told.think,
        body: told.body,
        befriend: told.befriend,
        rooms: told.rooms,
        rooms_domain,
        pubsub_domain,
        stanzas,
        length: told.length,
        settle: told.settle,
        patience: told.patience,
        register: told.register,
        unregister: told.unregister,
        registrations: told.registrations,
        monitors: told.monitors,
        redirect: told.redirect,
        retry: told.retry,
        max_failures: told.max_failures,
    };
    let setup = Setup {
        scenario: Arc::new(scenario(&told.title, &options.command_line)?),
        options: Arc::new(options),
        receive: None,
        out_of_call: None,
        files: Arc::default(),
        receive_files: None,
        tracer: lab_sip::trace::Tracer::default(),
        chat: Some(Arc::new(chat)),
    };
    Ok((setup, outputs))
}

/// The scenario that stands for a load in screens and reports: a name, and the names of the timers.
fn scenario(title: &str, command_line: &[String]) -> Result<Scenario, String> {
    let compiled =
        // Compiled for the parts that any scenario has; its steps are taken out again, since users follow a mix of actions.
        compile_text(b"<scenario><recv request=\"INVITE\"/></scenario>", ScenarioSource::BuiltIn("users"));
    let scenario = compiled.map_err(|errors| format!("{errors:?}"))?.scenario;
    Ok(Scenario {
        name: title.to_owned(),
        steps: Vec::new(),
        rtds: TIMERS.map(str::to_owned).to_vec(),
        text: format!("ringer xmpp {}", shell::join(command_line)),
        ..scenario
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_xmpp::ThinkTime;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_make_a_load() {
        let (setup, outputs) =
            build(&words("127.0.0.1 --users 10 --contacts 2 --tls direct --mix message=1 --think 500ms"))
                .unwrap();
        let chat = setup.chat.unwrap();
        assert_eq!((chat.target.port(), chat.people.count(), chat.people.domain()), (5223, 10, "127.0.0.1"));
        assert_eq!(chat.think, ThinkTime::Exponential(Duration::from_millis(500)));
        assert_eq!(setup.scenario.rtds, TIMERS);
        assert!(outputs.thresholds.iter().any(|threshold| threshold == "lost == 0"));
    }

    #[test]
    fn a_file_names_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.csv");
        std::fs::write(&file, "old;x\nzoe;pz\namy;pa\n").unwrap();
        let line =
            |more: &str| words(&format!("127.0.0.1 --contacts 0 --users-file {} {more}", file.display()));
        let chat = |more: &str| build(&line(more)).unwrap().0.chat.unwrap();
        assert_eq!((chat("").people.count(), chat("--users 1").people.count()), (3, 1));
        let later = chat("--first 1");
        assert_eq!(
            (later.people.count(), later.people.name(1), later.people.password(0)),
            (2, "amy".into(), "pz".into())
        );
        assert_eq!((chat("--monitors 1").people.count(), chat("--monitors 1").people.all()), (1, 3));
        for (more, says) in [
            ("--users 4", "users.csv: 4 users after the first 0 of 3 accounts"),
            ("--first 3", "users.csv: no users"),
            ("--name bob", "neither --name nor --password"),
            ("--users-file /nowhere", "--users-file /nowhere: No such file"),
        ] {
            let error = build(&line(more)).expect_err(more);
            assert!(error.contains(says), "{more}: {error}");
        }
        std::fs::write(&file, "zoe;pz\namy\n").unwrap();
        let error = build(&line("")).expect_err("no password");
        assert!(error.contains("users.csv:2: expected NAME;PASSWORD"), "{error}");
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for (text, says) in [
            ("", "no target"),
            ("127.0.0.1 --user 3", "unknown flag --user"),
            ("127.0.0.1 --users", "--users: expected N"),
            ("127.0.0.1 --users many", "--users \"many\": expected a number"),
            ("127.0.0.1 --users 5 --contacts 3", "even"),
            ("127.0.0.1 --tls maybe", "starttls"),
            ("127.0.0.1 --mix talk=1", "expected one of message"),
            ("127.0.0.1 --mix raw=1", "raw in --mix: expected --stanza FILE"),
            ("127.0.0.1 --stanza /nowhere", "--stanza /nowhere: No such file"),
            ("127.0.0.1 --websocket /ws", "--tls none"),
            ("127.0.0.1 --bosh /bosh", "--bosh with --tls starttls: expected --tls none"),
            ("127.0.0.1 --tls none --bosh bosh", "--bosh \"bosh\": expected a path, as /bosh"),
            ("127.0.0.1 --tls none --bosh /bosh --websocket /ws", "one of the two"),
            ("127.0.0.1 --for ever", "expected a time"),
            ("127.0.0.1 --workers 0", "at least 1"),
            ("127.0.0.1 --logins 0", "more than 0"),
            ("127.0.0.1 --registrations 0", "--registrations 0: expected more than 0"),
            ("127.0.0.1 --register 1", "--register \"1\": expected yes or no"),
            ("127.0.0.1 --monitors 1 --monitor-every 0", "10ms at least"),
            ("127.0.0.1 --monitors 1 --users 1 --contacts 0 --name one", "{n}"),
            ("127.0.0.1 --mechanism ANONYMOUS", "--contacts 0"),
            ("127.0.0.1 --mechanism ANONYMOUS --contacts 0 --register yes", "no registration"),
            ("127.0.0.1 --redirect yes", "follow or count"),
            ("127.0.0.1 --retry soon", "expected a time"),
            ("127.0.0.1 --max-failures few", "--max-failures \"few\": expected a number, or a share"),
            ("127.0.0.1 other", "one target too many"),
            ("no.such.host.invalid", "Unknown host"),
        ] {
            let error = build(&words(text)).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
