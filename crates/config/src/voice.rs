//! `[voice]`: calls that reach an application.
//!
//! [`Voice::call_settings`] and [`Voice::number_settings`] give the parts that the crate `voice` reads; media, mail, speech and recordings are for
//! `voice-io`.
//!
//! Invariant: numbers need `media`, and a number with a `file:` URL needs `documents`; so a call that an
//! application is to answer has an address for its sound, and its document a place.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ::voice::{ConfiguredNumber, NumberSettings, RedialPolicy, Settings};
use ivr::request::Method;
use net::Network;
use toml::de::DeValue;

use super::reader::{Reader, Section};
use super::value::Value;

/// `[voice]`. Nothing of it costs anything while `media` is not given.
#[derive(Clone, Debug, PartialEq)]
pub struct Voice {
    /// The address at which media is received; `None`: off.
    pub media: Option<IpAddr>,
    /// The address that peers are told instead of `media`.
    pub advertise: Option<IpAddr>,
    /// Even ports of it are RTP's, the odd ones above them RTCP's.
    pub ports: RangeInclusive<u16>,
    /// The numbers that applications answer.
    pub numbers: Vec<ConfiguredNumber>,
    /// Callers without an account or a trunk reach the numbers, too. Off by default.
    pub open: bool,
    /// Applications, and URLs and addresses in their documents, may be in private networks. Off by default.
    pub allow_private: bool,
    /// Sent media before they have sent any.
    /// Gateways that wait for our media before they send theirs.
    pub media_networks: Vec<Network>,
    /// Without a packet of the peer's; zero: never.
    pub media_timeout: Duration,
    /// End the call then, or only report it.
    pub media_timeout_ends: bool,
    /// The calls that another node makes again when their node dies.
    pub redial: RedialPolicy,
    /// The folder of documents that numbers name as `file:NAME`.
    pub documents: Option<PathBuf>,
    /// The folder of sounds that documents name as `file:NAME`.
    pub prompts: Option<PathBuf>,
    /// Between the last sound of a document and the hang-up.
    pub end_pause: Duration,
    /// Empty: flite and espeak-ng.
    pub speech: Vec<Box<str>>,
    /// Empty: speech is not recognised. One URL, or a program and its arguments.
    pub recogniser: Vec<Box<str>>,
    /// Empty: recordings are WAV files only. A program and its arguments.
    pub mp3: Vec<Box<str>>,
    /// `<data>/recordings` unless named.
    pub recordings: Option<PathBuf>,
    /// Without a slash at its end.
    pub public_url: Option<Box<str>>,
    /// The account on whose behalf applications are requested.
    pub account: Box<str>,
    /// Signs the requests to them.
    pub auth_token: Option<Box<str>>,
    /// Calls are resources of the REST interface.
    pub records: bool,
    /// `None`: no mail is sent.
    pub mail: Option<MailRelay>,
}

/// Takes the mail of documents.
#[derive(Clone, PartialEq, Eq)]
pub struct MailRelay {
    /// The name or address of the relay.
    pub host: Box<str>,
    /// The TCP port of the relay.
    pub port: u16,
    /// The protection of the connection.
    pub security: MailSecurity,
    /// User and password.
    pub login: Option<(Box<str>, Box<str>)>,
    /// The envelope sender, which gets bounces.
    pub sender: Option<Box<str>>,
}

impl std::fmt::Debug for MailRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MailRelay({}:{}, {:?})", self.host, self.port, self.security)
    }
}

/// The protection of the connection to a mail relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    /// TLS from the first byte.
    Tls,
    /// TLS after the command STARTTLS (RFC 3207).
    StartTls,
    /// The connection is not encrypted.
    None,
}

/// The administrator's account in every installation of RestComm: its applications know it.
/// A node that replaces a RestComm server is found under the same URLs of the REST interface.
const ACCOUNT: &str = "ACae6e420f425248d6a26948c17a9e2acf";

impl Voice {
    /// Programmable voice is on when `media` is set.
    pub fn is_on(&self) -> bool {
        self.media.is_some()
    }

    /// The part that calls read; `None`: programmable voice is off.
    /// Callers are told `media_advertise` where it is given, else `media`.
    pub fn call_settings(&self) -> Option<Settings> {
        Some(Settings {
            ip: self.advertise.or(self.media)?,
            allow_private: self.allow_private,
            end_pause: self.end_pause,
            records: self.records,
            media_networks: self.media_networks.clone().into(),
            media_timeout: self.media_timeout,
            media_timeout_ends: self.media_timeout_ends,
            redial: self.redial,
        })
    }

    /// The part that says which application answers which number.
    pub fn number_settings(&self) -> NumberSettings {
        NumberSettings {
            account: self.account.clone(),
            auth_token: self.auth_token.clone(),
            numbers: self.numbers.clone(),
            open: self.open,
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("voice");
        let (media, advertise, ports) = sockets(&mut section);
        let numbers = numbers(&mut section, media.is_some());
        let documents = documents(&mut section, &numbers);
        let mail = read_mail(&mut section);
        let (media_networks, media_timeout, media_timeout_ends) = read_media(&mut section);
        let voice = Voice {
            media,
            advertise,
            ports,
            numbers,
            open: section.key(
                "open",
                false,
                "Whether callers who are no account of ours reach the numbers. Accounts and trunks always do.",
            ),
            allow_private: section.key(
                "allow_private",
                false,
                "Whether applications, and the URLs and SIP addresses that their documents name, may be in this machine's own network (loopback, private and link-local addresses).",
            ),
            media_networks,
            media_timeout,
            media_timeout_ends,
            redial: read_redial(&mut section),
            documents,
            prompts: section.optional("prompts", "Folder of sounds that documents name as `file:NAME`."),
            speech: section.list(
                "speech",
                Vec::new(),
                "Program that speaks, and its arguments, in which `{voice}` and `{language}` are replaced: text in, WAV out. flite and espeak-ng when empty.",
            ),
            end_pause: read_end_pause(&mut section),
            recogniser: section.list(
                "recogniser",
                Vec::new(),
                "Program that understands speech, and its arguments, in which `{language}` and `{hints}` are replaced: samples in (16 bits, 8 kHz), lines of text or JSON out. Or one URL, to which WAV is posted. Speech is not recognised when empty.",
            ),
            recordings: section.optional(
                "recordings",
                "Folder of recordings, made with the first. `recordings` in `server.data` when not given.",
            ),
            mp3: read_mp3(&mut section),
            public_url: section
                .optional("public_url", "Where applications find this node's HTTP: `RecordingUrl` begins with it, and `media_url` of a recording at the REST interface. `http://` and `[rest] listen` when not given, or `[http] listen` without that.")
                .map(|Base(url)| url),
            account: section.key("account", ACCOUNT.into(), "`AccountSid` of requests to applications, and the first account of the REST interface."),
            auth_token: section.secret(
                "auth_token",
                "That account's token, and the secret that signs requests to applications (`X-Twilio-Signature`). Without it the token is made at the first start of the REST interface, and signs them.",
            ),
            records: read_records(&mut section),
            mail,
        };
        check(&mut section, &voice);
        section.finish();
        voice
    }
}

/// Mistakes that several keys make together, or that the value of one does not show.
fn check(section: &mut Section<'_, '_>, voice: &Voice) {
    if !ivr::sid::is(ivr::sid::ACCOUNT, &voice.account) {
        section.mistake("account", "`account` is no sid", "AC and 32 hexadecimal digits");
    }
    // Anyone may then claim a number, and it would be called.
    if voice.open && voice.redial == RedialPolicy::All {
        section.mistake(
            "redial_on_failure",
            "`redial_on_failure` is \"all\" and `open` is true",
            "\"accounts\", or only one of the two",
        );
    }
}

fn read_redial(section: &mut Section<'_, '_>) -> RedialPolicy {
    section.key(
        "redial_on_failure",
        RedialPolicy::Never,
        "In a farm: which answered calls are made again when their node dies. The other party is called, and the application's URL is requested anew, with the lost call as `RedialOf`. `never`; `accounts`: calls that applications have placed, and callers that are accounts of ours; or `all`: also numbers that trunks have named, which costs what calls to them cost.",
    )
}

/// Reads the address of media, the address that callers are told, and the ports.
fn sockets(section: &mut Section<'_, '_>) -> (Option<IpAddr>, Option<IpAddr>, RangeInclusive<u16>) {
    let media = section
        .optional("media", "Address at which media is received. Applications answer no calls without it.")
        .map(|Address(ip)| ip);
    // The address stands in SDP (RFC 4566 §5.7), where 0.0.0.0 would mean that the call is on hold (RFC 2543
    // §B.5).
    if media.is_some_and(|ip: IpAddr| ip.is_unspecified()) {
        section.mistake("media", "`media` is every address", "one address, which callers are told");
    }
    let advertise = section
        .optional(
            "media_advertise",
            "Address callers are told to send media to, where it is not `media` (behind NAT).",
        )
        .map(|Address(ip)| ip);
    let Ports(ports) = section.key(
        "media_ports",
        Ports(20_000..=39_999),
        "UDP ports for media, two a call: for RTP and RTCP. Shards share them. Beyond, callers get 503.",
    );
    (media, advertise, ports)
}

fn read_end_pause(section: &mut Section<'_, '_>) -> Duration {
    section.key_in(
        "end_pause",
        // A word of silence: phones keep 60 to 200 ms of sound in their jitter buffers, the rest is for the listener.
        Duration::from_millis(500),
        Duration::ZERO..=Duration::from_secs(10),
        "How long a call stays up after its last sound, when its document ends or says `<Hangup>`. `0s`: not at all.",
    )
}

fn read_mp3(section: &mut Section<'_, '_>) -> Vec<Box<str>> {
    section.list(
        "mp3",
        Vec::new(),
        "Program that encodes recordings as MP3, and its arguments, as `[\"lame\", \"--quiet\", \"-\", \"-\"]`: a WAV file in, MP3 out, within two minutes. Requests for `.mp3` are answered 406 when empty.",
    )
}

fn read_records(section: &mut Section<'_, '_>) -> bool {
    section.key(
        "records",
        true,
        "Whether calls and what went wrong with them can be asked for by REST. Two writes a call.",
    )
}

/// The keys about the media of calls.
fn read_media(section: &mut Section<'_, '_>) -> (Vec<Network>, Duration, bool) {
    let networks = section.list(
        "media_networks",
        Vec::new(),
        "Media gateways, as `203.0.113.0/24`, that wait for our media before they send theirs. Any other address is sent media once it has sent some, or if it is the one the signalling comes from.",
    );
    let timeout = section.key_in(
        "media_timeout",
        Duration::from_secs(60),
        Duration::ZERO..=Duration::from_hours(24),
        "A call whose peer sends neither RTP nor RTCP for so long, and is not on hold, has lost its phone. `0s`: never.",
    );
    let ends = section.key(
        "media_timeout_ends",
        true,
        "Whether such a call is ended. Otherwise it is only logged and counted.",
    );
    (networks, timeout, ends)
}

impl Default for Voice {
    fn default() -> Self {
        super::Config::default().voice
    }
}

/// Keys of the relay for mail.
fn read_mail(section: &mut Section<'_, '_>) -> Option<MailRelay> {
    let relay = section
        .optional("mail_relay", "SMTP server that takes the mail of documents. None is sent without it.")
        .map(|Relay(host, port)| (host, port));
    let security = section.key(
        "mail_security",
        MailSecurity::StartTls,
        "How the relay is spoken with: `tls` from the first byte (port 465), `starttls` (port 587), or `none`.",
    );
    let user: Option<Box<str>> = section.optional("mail_user", "Name by which the relay knows this server.");
    let password = section.secret("mail_password", "Password of `mail_user`.");
    // A wrapper around an option, so that a default of "none" has the same kind as a value.
    let MailAddress(sender) = section
        .optional(
            "mail_sender",
            "Address that mail which cannot be delivered goes back to, where it is not the document's `from`.",
        )
        .unwrap_or(MailAddress(None));
    // Half of a login would be no login, and the relay's refusal of each mail would not say why.
    if user.is_some() != password.is_some() {
        section.mistake(
            "mail_user",
            "`mail_user` and `mail_password` belong together",
            "both or none of them",
        );
    }
    if relay.is_none() && user.is_some() {
        section.mistake(
            "mail_user",
            "`mail_user` without `mail_relay`",
            "`mail_relay`, the server it is for",
        );
    }
    let (host, port) = relay?;
    Some(MailRelay { host, port, security, login: user.zip(password), sender })
}

/// Host and port of a mail relay.
struct Relay(Box<str>, u16);

impl Value for Relay {
    const EXPECTED: &'static str = "a host and port, as \"mail.example.org:587\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let (host, port) = value.as_str()?.rsplit_once(':')?;
        // The brackets of an IPv6 address belong to the text, not to the host.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then(|| Relay(host.into(), port))
    }

    fn show(&self) -> String {
        format!("\"{}:{}\"", self.0, self.1)
    }
}

/// The envelope sender of mail.
struct MailAddress(Option<Box<str>>);

impl Value for MailAddress {
    const EXPECTED: &'static str = "a mail address, as \"belfry@example.org\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        text.parse::<lettre::Address>().ok().map(|_| MailAddress(Some(text.into())))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0.as_deref().unwrap_or_default())
    }
}

impl Value for MailSecurity {
    const EXPECTED: &'static str = "\"tls\", \"starttls\" or \"none\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "tls" => Some(MailSecurity::Tls),
            "starttls" => Some(MailSecurity::StartTls),
            "none" => Some(MailSecurity::None),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let name = match self {
            MailSecurity::Tls => "tls",
            MailSecurity::StartTls => "starttls",
            MailSecurity::None => "none",
        };
        format!("\"{name}\"")
    }
}

impl Value for RedialPolicy {
    const EXPECTED: &'static str = "\"never\", \"accounts\" or \"all\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "never" => Some(RedialPolicy::Never),
            "accounts" => Some(RedialPolicy::Accounts),
            "all" => Some(RedialPolicy::All),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let name = match self {
            RedialPolicy::Never => "never",
            RedialPolicy::Accounts => "accounts",
            RedialPolicy::All => "all",
        };
        format!("\"{name}\"")
    }
}

/// The numbers, for which media is needed.
fn numbers(section: &mut Section<'_, '_>, has_media: bool) -> Vec<ConfiguredNumber> {
    let numbers: Vec<ConfiguredNumber> = section.list(
        "numbers",
        Vec::new(),
        "Numbers that applications answer, in every domain served: 1234 is also +1234. `method` is POST unless it says GET; `fallback` is asked when `url` gives no document.",
    );
    if !has_media && !numbers.is_empty() {
        section.mistake("numbers", "`numbers` without `media`", "`media`, the address for their sound");
    }
    numbers
}

/// The folder, which must be there if a number names a file of it.
fn documents(section: &mut Section<'_, '_>, numbers: &[ConfiguredNumber]) -> Option<PathBuf> {
    let documents = section.file(
        "documents",
        "Folder of documents that numbers name as `file:NAME`, for applications without a web server.",
    );
    let is_file = |number: &ConfiguredNumber| {
        [Some(&number.url), number.fallback.as_ref()]
            .into_iter()
            .flatten()
            .any(|url| url.starts_with("file:"))
    };
    if documents.is_none() && numbers.iter().any(is_file) {
        section.mistake("numbers", "`numbers` with a `file:` URL", "`documents`, the folder of such files");
    }
    documents
}

/// An IP address without a port.
struct Address(IpAddr);

impl Value for Address {
    const EXPECTED: &'static str = "an IP address, as \"192.0.2.10\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok().map(Address)
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// A URL without a slash at its end, to which paths are added.
struct Base(Box<str>);

impl Value for Base {
    const EXPECTED: &'static str = "a URL, as \"https://voice.example\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let url = value.as_str()?.trim_end_matches('/');
        ivr::request::resolve(None, url, &["http", "https"]).map(|_| Base(url.into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// A range of ports.
struct Ports(RangeInclusive<u16>);

impl Value for Ports {
    const EXPECTED: &'static str = "a range of at least two ports, as \"20000-39999\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let (first, last) = value.as_str()?.split_once('-')?;
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // Two ports at least: RTP and RTCP of one leg (RFC 3550 §11).
        (first > 0 && first < last).then_some(Ports(first..=last))
    }

    fn show(&self) -> String {
        format!("\"{}-{}\"", self.0.start(), self.0.end())
    }
}

impl Value for ConfiguredNumber {
    const EXPECTED: &'static str = "{ number = \"1234\", url = \"http://…\" }, and perhaps `method` (\"GET\" or \"POST\") and `fallback`, a URL; a URL is of HTTP, or `file:NAME`";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let table = value.as_table()?;
        // An unknown key may be a misspelt one, and the number would be answered otherwise than its author
        // expects.
        if table.keys().any(|key| !["number", "url", "method", "fallback"].contains(&&**key.get_ref())) {
            return None;
        }
        let text = |name: &str| table.get(name).map(|value| value.get_ref().as_str());
        // The outer option is a mistake, the inner one a key that was left out.
        let url = |name: &str| match text(name) {
            None => Some(None),
            Some(given) => ivr::request::resolve(None, given?, &["http", "https", "file"]).map(Some),
        };
        let number = text("number")??;
        // Numbers are compared without the plus.
        let number = number.strip_prefix('+').unwrap_or(number);
        let method = match text("method") {
            None => Method::Post,
            Some(given) => Method::parse(given?)?,
        };
        // "+" alone is no number.
        (!number.is_empty()).then_some(())?;
        Some(ConfiguredNumber {
            number: number.into(),
            url: url("url")??.into(),
            method,
            fallback: url("fallback")?.map(Into::into),
        })
    }

    fn show(&self) -> String {
        format!("{{ number = \"{}\", url = \"{}\" }}", self.number, self.url)
    }
}
