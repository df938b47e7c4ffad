//! The flags of `ringer xmpp`, and what they say.
//!
//! One table (`FLAGS`) has name, value, text and effect of each flag; the parser, the help and the reference page read it. Every flag has exactly
//! one value.

use std::path::PathBuf;
use std::time::Duration;

use lab_sip::options::Options;
use lab_xmpp::{
    ActionMix, MaxFailures, MonitorOptions, RedirectPolicy, Retry, SaslMechanism, StreamSecurity, ThinkTime,
};

use super::super::flags::Outputs;

/// One flag: its name, what it is given, what it is for.
pub(in crate::cli) struct Flag {
    /// With its dashes.
    pub(in crate::cli) name: &'static str,
    /// The form of the value, for the help and for messages.
    pub(in crate::cli) value: &'static str,
    /// One line of help; the default stands in parentheses at its end.
    pub(in crate::cli) about: &'static str,
    /// Stores the value; an error says what was expected.
    pub(super) set: fn(&mut XmppFlags, String) -> Result<(), String>,
}

/// The values of the flags; the defaults are those of the published tests where these give one.
pub(super) struct XmppFlags {
    /// The title of the report.
    pub(super) title: String,
    /// HOST or HOST:PORT.
    pub(super) target: Option<String>,
    /// `None`: the target's name.
    pub(super) domain: Option<String>,
    /// `None`: a hundred, or all of a file.
    pub(super) users: Option<u32>,
    /// The number of the first user, or the accounts of the file to pass over.
    pub(super) first: u32,
    /// Patterns, or a file in place of both.
    pub(super) name: Option<String>,
    /// The pattern of passwords; `{n}` is the number of the user.
    pub(super) password: Option<String>,
    /// Names and passwords, a line each.
    pub(super) users_file: Option<PathBuf>,
    /// Sign-ins a second.
    pub(super) logins: f64,
    pub(super) mechanism: SaslMechanism,
    pub(super) security: StreamSecurity,
    /// The path of WebSocket; not together with `bosh`.
    pub(super) websocket: Option<String>,
    /// The path of BOSH.
    pub(super) bosh: Option<String>,
    /// Contacts of each user.
    pub(super) contacts: u32,
    /// The users make the rosters themselves, before the load.
    pub(super) befriend: bool,
    /// Shares of the actions.
    pub(super) mix: ActionMix,
    /// The time between two actions of a user.
    pub(super) think: ThinkTime,
    /// Bytes of a message's text.
    pub(super) body: usize,
    /// Rooms of the whole load; each user is in one.
    pub(super) rooms: u32,
    /// `None`: below the users' domain, as the next.
    pub(super) rooms_domain: Option<String>,
    pub(super) pubsub_domain: Option<String>,
    /// Files.
    pub(super) stanzas: Vec<PathBuf>,
    /// The load's length once all users have signed in.
    pub(super) length: Duration,
    /// The longest time at the end for messages on their way.
    pub(super) settle: Duration,
    /// The longest wait of a user for an answer.
    pub(super) patience: Duration,
    /// Accounts are made before the load.
    pub(super) register: bool,
    /// Accounts are removed after the load.
    pub(super) unregister: bool,
    /// Accounts made or removed a second.
    pub(super) registrations: f64,
    pub(super) monitors: MonitorOptions,
    pub(super) redirect: RedirectPolicy,
    pub(super) retry: Retry,
    pub(super) max_failures: Option<MaxFailures>,
    /// Options that the engine shares with loads of calls: rate, threads, TLS.
    pub(super) options: Options,
    pub(super) outputs: Outputs,
}

/// When nothing says how many.
pub(super) const USERS: u32 = 100;

/// The mix of the published test: 83.5 % messages, 13.5 % presence, 2.5 % signing out and in, 0.5 % rosters.
const MIX: &str = "message=83.5,presence=13.5,logout=2.5,roster-add=0.2,roster-rename=0.2,roster-remove=0.1";

impl XmppFlags {
    pub(super) fn new() -> Result<XmppFlags, String> {
        Ok(XmppFlags {
            title: "users".to_owned(),
            target: None,
            domain: None,
            users: None,
            first: 0,
            name: None,
            password: None,
            users_file: None,
            logins: 120.0,
            mechanism: SaslMechanism::Scram(xmpp::sasl::Hash::Sha1),
            security: StreamSecurity::StartTls,
            websocket: None,
            bosh: None,
            contacts: 7,
            befriend: false,
            mix: ActionMix::parse(MIX)?,
            think: ThinkTime::Exponential(Duration::from_secs(120)),
            body: 64,
            rooms: 10,
            rooms_domain: None,
            pubsub_domain: None,
            stanzas: Vec::new(),
            length: Duration::from_secs(60),
            settle: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            register: false,
            unregister: false,
            registrations: 50.0,
            monitors: MonitorOptions { pairs: 0, every: Duration::from_secs(1) },
            redirect: RedirectPolicy::Follow,
            retry: Retry { first: Duration::from_secs(2), give_up: 0 },
            max_failures: None,
            options: Options::default(),
            outputs: Outputs::default(),
        })
    }
}

/// A number of the type that is wanted.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?}: expected a number"))
}

/// For counts of processes, where 0 would mean nothing.
fn at_least_one(text: &str) -> Result<usize, String> {
    let number = number(text)?;
    if number == 0 { Err(format!("{text}: expected at least 1")) } else { Ok(number) }
}

/// `90`, `1.5s`, `500ms`, `30m`, `2h`.
fn time(text: &str) -> Result<Duration, String> {
    // "ms" comes before "s", whose suffix it has.
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let found = units.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (digits, scale) = found.unwrap_or((text, 1.0));
    let seconds: Option<f64> = digits.trim().parse().ok();
    // 1e8 seconds, three years, is beyond any load and within `Duration`.
    let seconds = seconds.map(|seconds| seconds * scale).filter(|seconds| (0.0..=1e8).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?}: expected a time, as 90, 500ms or 30m"))
}

/// A row is name, value, help and a statement that stores the value; the macro makes each statement a function.
macro_rules! flags {
    ($($name:literal $value:literal $about:literal |$words:ident, $given:ident| $set:expr;)*) => {
        /// In the order of the help.
        pub(in crate::cli) const FLAGS: &[Flag] = &[
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
    "--mechanism" "NAME" "PLAIN, SCRAM-SHA-1, SCRAM-SHA-256, SCRAM-SHA-512, ANONYMOUS (SCRAM-SHA-1)" |w, v| w.mechanism = SaslMechanism::parse(&v)?;
    "--tls" "HOW" "none, starttls, direct (starttls)" |w, v| w.security = StreamSecurity::parse(&v)?;
    "--websocket" "PATH" "by WebSocket at this path, as /ws; with --tls none or direct (by TCP)" |w, v| w.websocket = Some(v);
    "--bosh" "PATH" "by HTTP requests at this path, as /bosh (XEP-0206), two connections a user; with --tls none or direct (by TCP)" |w, v| w.bosh = Some(v);
    "--tls-ca" "FILE" "authority of the server's certificate (any certificate will do)" |w, v| w.options.network.tls.ca = Some(v.into());
    "--contacts" "N" "contacts of each user among the users (7)" |w, v| w.contacts = number(&v)?;
    "--befriend" "yes|no" "the users make the rosters themselves, before the load (no)" |w, v| w.befriend = yes(&v)?;
    "--mix" "SHARES" "what users do, as message=83.5,presence=13.5 (the published test's); ringer xmpp --actions lists all" |w, v| w.mix = ActionMix::parse(&v)?;
    "--think" "TIME" "mean time from one action of a user to the next, exponential (120)" |w, v| w.think = ThinkTime::Exponential(time(&v)?);
    "--think-fixed" "TIME" "the same, always this long (--think)" |w, v| w.think = ThinkTime::Fixed(time(&v)?);
    "--body" "BYTES" "length of a message's text (64)" |w, v| w.body = number(&v)?;
    "--rooms" "N" "rooms, when the mix has them; each user is in one (10)" |w, v| w.rooms = number(&v)?;
    "--rooms-domain" "NAME" "their domain (conference.DOMAIN)" |w, v| w.rooms_domain = Some(v);
    "--pubsub-domain" "NAME" "the publish-subscribe service, when the mix has it (pubsub.DOMAIN)" |w, v| w.pubsub_domain = Some(v);
    "--stanza" "FILE" "stanzas that the action raw sends, with {user} {domain} {jid} {contact} (one who is there) {id} {n} filled in; may be given again (none)" |w, v| w.stanzas.push(v.into());
    "--for" "TIME" "how long the load lasts once all users are in (60)" |w, v| w.length = time(&v)?;
    "--settle" "TIME" "how long what is under way may take at the end (30)" |w, v| w.settle = time(&v)?;
    "--timeout" "TIME" "how long a user waits for an answer, or to be signed in (30)" |w, v| w.patience = time(&v)?;
    "--register" "yes|no" "make the accounts before the load, in band (XEP-0077); those that are there already are fine (no)" |w, v| w.register = yes(&v)?;
    "--unregister" "yes|no" "remove the accounts after it (no)" |w, v| w.unregister = yes(&v)?;
    "--registrations" "RATE" "accounts made or removed a second (50)" |w, v| w.registrations = number(&v)?;
    "--monitors" "PAIRS" "pairs of users beside the load, numbered after the others, who sign out and in, send a message and back, and change presence in turn (0)" |w, v| w.monitors.pairs = number(&v)?;
    "--monitor-every" "TIME" "from one step of a pair to the next (1)" |w, v| w.monitors.every = time(&v)?;
    "--redirect" "follow|count" "when the server names another host (see-other-host): connect there, or count a failure (follow)" |w, v| w.redirect = RedirectPolicy::parse(&v)?;
    "--retry" "TIME" "until who failed signs in again, and up to as much again; twice that with each failure in a row, a minute at most (2)" |w, v| w.retry.first = time(&v)?;
    "--give-up" "N" "a user with so many failures in a row stays away; 0 for never (0)" |w, v| w.retry.give_up = number(&v)?;
    "--max-failures" "N|P%" "with more failures, or a larger share of all that ended, the run ends early (it goes on)" |w, v| w.max_failures = Some(MaxFailures::parse(&v)?);
    "--threads" "N" "threads that do the work of the load (one a core)" |w, v| w.options.threads = Some(number(&v)?);
    "--workers" "N" "processes that have the users (as many as the limit on open files makes needed)" |w, v| w.options.workers = Some(at_least_one(&v)?);
    "--threshold" "RULE" "what the run must keep, as response.message.p99 < 2s; may be given again (nothing lost, twice, out of order or misdelivered)" |w, v| w.outputs.thresholds.push(v);
    "--watch" "PID|NAME" "processes whose processor time and memory are measured; may be given again (none)" |w, v| w.outputs.watch.push(v);
    "--report" "FILE.html" "writes the report as a page (no file)" |w, v| w.outputs.report = Some(v.into());
    "--json" "FILE" "writes the report as data (no file)" |w, v| w.outputs.json = Some(v.into());
    "--junit" "FILE" "writes the thresholds as tests (no file)" |w, v| w.outputs.junit = Some(v.into());
    "--prometheus" "ADDRESS" "serves figures at this [HOST:]PORT while it runs (nowhere)" |w, v| w.outputs.prometheus = Some(v);
    "--title" "TEXT" "title of the report (users)" |w, v| w.title = v;
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{text:?}: expected yes or no")),
    }
}
