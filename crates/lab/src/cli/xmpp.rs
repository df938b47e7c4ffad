//! `ringer xmpp`: users from flags, the rest as `ringer sip`.

mod accounts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::flags::{Live, Outputs};
use super::value;
use super::{ExitCode, sip};
use crate::chat::{
    ACTIONS, Chat, MaxFailures, Mechanism, Mix, Monitors, People, Redirect, Retry, Roll, Security, TIMERS,
    Think,
};
use crate::engine::Setup;
use crate::options::{Options, Remote};
use crate::scenario::model::Source;
use crate::scenario::{Scenario, compile_text};

/// One flag: its name, what it is given, what it is for.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) about: &'static str,
    set: fn(&mut Words, String) -> Result<(), String>,
}

/// What the flags say; defaults are those of the published tests where they say one.
struct Words {
    title: String,
    target: Option<String>,
    domain: Option<String>,
    /// `None`: a hundred, or all of a file.
    users: Option<u32>,
    first: u32,
    /// Patterns, or a file in place of both.
    name: Option<String>,
    password: Option<String>,
    users_file: Option<PathBuf>,
    logins: f64,
    mechanism: Mechanism,
    security: Security,
    websocket: Option<String>,
    contacts: u32,
    befriend: bool,
    mix: Mix,
    think: Think,
    body: usize,
    rooms: u32,
    rooms_domain: Option<String>,
    length: Duration,
    settle: Duration,
    patience: Duration,
    register: bool,
    unregister: bool,
    registrations: f64,
    monitors: Monitors,
    redirect: Redirect,
    retry: Retry,
    max_failures: Option<MaxFailures>,
    options: Options,
    outputs: Outputs,
}

/// When nothing says how many.
const USERS: u32 = 100;

/// Of the published test: 83.5 % messages, 13.5 % presence, 2.5 % signing out and in, 0.5 % rosters.
const MIX: &str = "message=83.5,presence=13.5,logout=2.5,roster-add=0.2,roster-rename=0.2,roster-remove=0.1";

impl Words {
    fn new() -> Result<Words, String> {
        Ok(Words {
            title: "users".to_owned(),
            target: None,
            domain: None,
            users: None,
            first: 0,
            name: None,
            password: None,
            users_file: None,
            logins: 120.0,
            mechanism: Mechanism::Scram(xmpp::sasl::Hash::Sha1),
            security: Security::StartTls,
            websocket: None,
            contacts: 7,
            befriend: false,
            mix: Mix::parse(MIX)?,
            think: Think::Exponential(Duration::from_secs(120)),
            body: 64,
            rooms: 10,
            rooms_domain: None,
            length: Duration::from_secs(60),
            settle: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            register: false,
            unregister: false,
            registrations: 50.0,
            monitors: Monitors { pairs: 0, every: Duration::from_secs(1) },
            redirect: Redirect::Follow,
            retry: Retry { first: Duration::from_secs(2), give_up: 0 },
            max_failures: None,
            options: Options::default(),
            outputs: Outputs::default(),
        })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?}: expected a number"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = number(text)?;
    if number == 0 { Err(format!("{text}: expected at least 1")) } else { Ok(number) }
}

/// `90`, `1.5s`, `500ms`, `30m`, `2h`.
fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let found = units.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (digits, scale) = found.unwrap_or((text, 1.0));
    let seconds: Option<f64> = digits.trim().parse().ok();
    let seconds = seconds.map(|seconds| seconds * scale).filter(|seconds| (0.0..=1e8).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?}: expected a time, as 90, 500ms or 30m"))
}

macro_rules! flags {
    ($($name:literal $value:literal $about:literal |$words:ident, $given:ident| $set:expr;)*) => {
        /// In the order of the help.
        pub(super) const FLAGS: &[Flag] = &[
            $(Flag { name: $name, value: $value, about: $about, set: |$words, $given| { $set; Ok(()) } },)*
        ];
    };
}

flags! {
    "--users" "N" "users of the load (100, or as many as the file of --users-file has)" |w, v| w.users = Some(number(&v)?);
    "--domain" "NAME" "their domain (the target's name)" |w, v| w.domain = Some(v);
    "--name" "PATTERN" "their accounts; {n} is the number (user{n})" |w, v| w.name = Some(v);
    "--password" "PATTERN" "their passwords (secret)" |w, v| w.password = Some(v);
    "--users-file" "FILE.csv" "their accounts in place of both patterns, a line each: name,password or name;password, and perhaps a nick for rooms" |w, v| w.users_file = Some(v.into());
    "--first" "N" "number of the first; of a file, so many accounts are passed over (0)" |w, v| w.first = number(&v)?;
    "--logins" "RATE" "sign-ins a second (120)" |w, v| w.logins = number(&v)?;
    "--mechanism" "NAME" "PLAIN, SCRAM-SHA-1, SCRAM-SHA-256, SCRAM-SHA-512, ANONYMOUS (SCRAM-SHA-1)" |w, v| w.mechanism = Mechanism::parse(&v)?;
    "--tls" "HOW" "none, starttls, direct (starttls)" |w, v| w.security = Security::parse(&v)?;
    "--websocket" "PATH" "by WebSocket at this path, as /ws; with --tls none or direct" |w, v| w.websocket = Some(v);
    "--tls-ca" "FILE" "authority of the server's certificate; without one any certificate will do" |w, v| w.options.network.tls.ca = Some(v.into());
    "--contacts" "N" "contacts of each user among the users (7)" |w, v| w.contacts = number(&v)?;
    "--befriend" "yes|no" "the users make the rosters themselves, before the load (no)" |w, v| w.befriend = yes(&v)?;
    "--mix" "SHARES" "what users do, as message=83.5,presence=13.5 (the published test's); ringer xmpp --actions lists all" |w, v| w.mix = Mix::parse(&v)?;
    "--think" "TIME" "mean time from one action of a user to the next, exponential (120)" |w, v| w.think = Think::Exponential(time(&v)?);
    "--think-fixed" "TIME" "the same, always this long" |w, v| w.think = Think::Fixed(time(&v)?);
    "--body" "BYTES" "of a message (64)" |w, v| w.body = number(&v)?;
    "--rooms" "N" "rooms, when the mix has them; each user is in one (10)" |w, v| w.rooms = number(&v)?;
    "--rooms-domain" "NAME" "their domain (conference.DOMAIN)" |w, v| w.rooms_domain = Some(v);
    "--for" "TIME" "how long the load lasts once everybody is in (60)" |w, v| w.length = time(&v)?;
    "--settle" "TIME" "how long what is under way may take at the end (30)" |w, v| w.settle = time(&v)?;
    "--timeout" "TIME" "for an answer, or to sign in (30)" |w, v| w.patience = time(&v)?;
    "--register" "yes|no" "make the accounts before the load, in band (XEP-0077); those that are there already are fine (no)" |w, v| w.register = yes(&v)?;
    "--unregister" "yes|no" "remove the accounts after it (no)" |w, v| w.unregister = yes(&v)?;
    "--registrations" "RATE" "accounts made or removed a second (50)" |w, v| w.registrations = number(&v)?;
    "--monitors" "PAIRS" "pairs of users beside the load, numbered after the others, who sign out and in, send a message and back, and change presence in turn (0)" |w, v| w.monitors.pairs = number(&v)?;
    "--monitor-every" "TIME" "from one step of a pair to the next (1)" |w, v| w.monitors.every = time(&v)?;
    "--redirect" "follow|count" "when the server names another host (see-other-host): connect there, or count a failure (follow)" |w, v| w.redirect = Redirect::parse(&v)?;
    "--retry" "TIME" "until who failed signs in again, and up to as much again; twice that with each failure in a row, a minute at most (2)" |w, v| w.retry.first = time(&v)?;
    "--give-up" "N" "who failed so often in a row stays away; 0 for never (0)" |w, v| w.retry.give_up = number(&v)?;
    "--max-failures" "N|P%" "with more failures, or a larger share of all that ended, the run ends early (it goes on)" |w, v| w.max_failures = Some(MaxFailures::parse(&v)?);
    "--threads" "N" "(one a core)" |w, v| w.options.threads = Some(number(&v)?);
    "--workers" "N" "processes that have the users (as many as the limit on open files makes needed)" |w, v| w.options.workers = Some(at_least_one(&v)?);
    "--threshold" "RULE" "what the run must keep, as response.message.p99 < 2s; may be given again" |w, v| w.outputs.thresholds.push(v);
    "--watch" "PID|NAME" "processes whose processor time and memory are measured; may be given again" |w, v| w.outputs.watch.push(v);
    "--report" "FILE.html" "the report as a page" |w, v| w.outputs.report = Some(v.into());
    "--json" "FILE" "the report as data" |w, v| w.outputs.json = Some(v.into());
    "--junit" "FILE" "the thresholds as tests" |w, v| w.outputs.junit = Some(v.into());
    "--prometheus" "ADDRESS" "figures while it runs" |w, v| w.outputs.prometheus = Some(v);
    "--title" "TEXT" "of the report (users)" |w, v| w.title = v;
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{text:?}: expected yes or no")),
    }
}

/// What every run must keep: nothing lost, nothing twice.
const ALWAYS: [&str; 5] =
    ["lost == 0", "duplicated == 0", "reordered == 0", "misdelivered == 0", "unseen == 0"];

pub(super) fn main(program: &str, arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        None => {
            eprint!("{}", help(program));
            return ExitCode::Fatal;
        }
        Some("--help" | "-h") => {
            print!("{}", help(program));
            return ExitCode::Success;
        }
        Some("--actions") => {
            for (name, _, about) in ACTIONS {
                println!("  {name:<18} {about}");
            }
            return ExitCode::Success;
        }
        Some("accounts") => return make_accounts(program, &arguments[1..]),
        Some(_) => {}
    }
    match build(arguments) {
        Ok((setup, outputs)) => sip::run(setup, &outputs),
        Err(mistake) => {
            eprintln!("{program}: {mistake}");
            ExitCode::Fatal
        }
    }
}

fn make_accounts(program: &str, words: &[String]) -> ExitCode {
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}", accounts::help(program));
        return if words.is_empty() { ExitCode::Fatal } else { ExitCode::Success };
    }
    match accounts::write(words) {
        Ok(said) => {
            println!("{said}");
            ExitCode::Success
        }
        Err(mistake) => {
            eprintln!("{program} accounts: {mistake}");
            ExitCode::Fatal
        }
    }
}

fn help(program: &str) -> String {
    let mut text = format!(
        "usage: {program} HOST[:PORT] [FLAG VALUE ...]\n       {program} accounts ...    write accounts and rosters for a server to import\n       {program} --actions       what users can do\n\nUsers sign in, talk, and account for every message and presence.\n\n"
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
/// What is wrong, and what was expected.
pub(crate) fn build(words: &[String]) -> Result<(Setup, Outputs), String> {
    let mut told = Words::new()?;
    told.options.command_line = words.to_vec();
    told.outputs.live = Live::Auto;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match FLAGS.iter().find(|flag| flag.name == word) {
            Some(flag) => {
                let given =
                    words.next().cloned().ok_or_else(|| format!("{word}: expected {}", flag.value))?;
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

/// Also of `ringer xmpp accounts`.
fn people(told: &Words, domain: &str) -> Result<People, String> {
    let people = match &told.users_file {
        Some(file) => listed(told, file, domain)?,
        None => {
            let name = told.name.as_deref().unwrap_or("user{n}");
            let names = (name, told.password.as_deref().unwrap_or("secret"));
            People::new(told.users.unwrap_or(USERS), told.contacts, told.first, names, domain)?
        }
    };
    people.with_monitors(told.monitors.pairs)
}

/// All of the file are users, those who are monitors left out, unless a number was said.
fn listed(told: &Words, file: &Path, domain: &str) -> Result<People, String> {
    if told.name.is_some() || told.password.is_some() {
        return Err(
            "--users-file says names and passwords: expected neither --name nor --password".to_owned()
        );
    }
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("--users-file {shown}: {error}"))?;
    let roll = Roll::parse(&text, &shown, domain)?;
    let monitors = told.monitors.pairs.saturating_mul(2);
    let rest = roll.len().saturating_sub(told.first).saturating_sub(monitors);
    let people =
        People::listed(told.users.unwrap_or(rest), told.contacts, told.first, Arc::new(roll), domain);
    people.map_err(|error| format!("{shown}: {error}"))
}

fn check(told: &Words) -> Result<(), String> {
    for (name, rate) in [("--logins", told.logins), ("--registrations", told.registrations)] {
        if rate.is_nan() || rate <= 0.0 {
            return Err(format!("{name} {rate}: expected more than 0"));
        }
    }
    if told.monitors.every < Duration::from_millis(10) {
        return Err("--monitor-every: expected 10ms at least".to_owned());
    }
    // Who is given a name by the server has none that others know.
    let known = [
        (told.contacts > 0, "--contacts 0"),
        (told.monitors.pairs > 0, "--monitors 0"),
        (told.register || told.unregister, "no registration"),
    ];
    match known.iter().find(|(is_wrong, _)| *is_wrong && told.mechanism == Mechanism::Anonymous) {
        Some((_, expected)) => {
            Err(format!("--mechanism ANONYMOUS: expected {expected}: nobody knows anybody's name"))
        }
        None => Ok(()),
    }
}

fn setup(told: Words) -> Result<(Setup, Outputs), String> {
    check(&told)?;
    let target = told.target.as_deref().ok_or("no target: expected HOST or HOST:PORT")?;
    let port = match (told.security, &told.websocket) {
        (Security::StartTls, Some(_)) => {
            return Err("--websocket with --tls starttls: expected --tls none or --tls direct".to_owned());
        }
        (Security::Tls, Some(_)) => 5443,
        (_, Some(_)) => 5280,
        (Security::Tls, None) => 5223,
        (_, None) => 5222,
    };
    let (host, _) = value::host_port(target)?;
    let address = value::address(target, port, None)?;
    let domain = told.domain.clone().unwrap_or_else(|| host.clone());
    let people = people(&told, &domain)?;
    let rooms_domain = told.rooms_domain.unwrap_or_else(|| format!("conference.{domain}"));
    let mut options = told.options;
    options.remote = Some(Remote { host, address });
    options.rate.calls = told.logins;
    options.behaviour.no_stdin = true;
    let mut outputs = told.outputs;
    outputs.thresholds.extend(ALWAYS.map(str::to_owned));
    let chat = Chat {
        target: address,
        people,
        mechanism: told.mechanism,
        security: told.security,
        websocket: told.websocket,
        logins: told.logins,
        mix: told.mix,
        think: told.think,
        body: told.body,
        befriend: told.befriend,
        rooms: told.rooms,
        rooms_domain,
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
        tracer: crate::trace::Tracer::default(),
        chat: Some(Arc::new(chat)),
    };
    Ok((setup, outputs))
}

/// What stands for a scenario in screens and reports: a name, and the names of what is timed.
fn scenario(title: &str, command_line: &[String]) -> Result<Scenario, String> {
    let compiled = compile_text(b"<scenario><recv request=\"INVITE\"/></scenario>", Source::BuiltIn("users"));
    let scenario = compiled.map_err(|errors| format!("{errors:?}"))?.scenario;
    Ok(Scenario {
        name: title.to_owned(),
        steps: Vec::new(),
        rtds: TIMERS.map(str::to_owned).to_vec(),
        text: format!("ringer xmpp {}", command_line.join(" ")),
        ..scenario
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(chat.think, Think::Exponential(Duration::from_millis(500)));
        assert_eq!(setup.scenario.rtds, TIMERS);
        assert!(outputs.thresholds.iter().any(|threshold| threshold == "lost == 0"));
    }

    #[test]
    fn a_file_says_who_the_users_are() {
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
    fn mistakes_say_what_was_expected() {
        for (text, says) in [
            ("", "no target"),
            ("127.0.0.1 --user 3", "unknown flag --user"),
            ("127.0.0.1 --users", "--users: expected N"),
            ("127.0.0.1 --users many", "--users \"many\": expected a number"),
            ("127.0.0.1 --users 5 --contacts 3", "even"),
            ("127.0.0.1 --tls maybe", "starttls"),
            ("127.0.0.1 --mix talk=1", "expected one of message"),
            ("127.0.0.1 --websocket /ws", "--tls none"),
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
