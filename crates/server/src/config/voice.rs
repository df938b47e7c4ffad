//! `[voice]`: calls that reach an application.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ivr::request::Method;
use toml::de::DeValue;

use super::reader::{Reader, Section};
use super::value::Value;

/// `[voice]`. Nothing of it costs anything while `media` is not given.
#[derive(Clone, Debug, PartialEq)]
pub struct Voice {
    /// Where media is received; `None`: off.
    pub media: Option<IpAddr>,
    /// Told to peers instead of `media`.
    pub advertise: Option<IpAddr>,
    /// Even ports of it are RTP's, the odd ones above them RTCP's.
    pub ports: RangeInclusive<u16>,
    pub numbers: Vec<Number>,
    pub open: bool,
    pub allow_private: bool,
    pub prompts: Option<PathBuf>,
    /// Empty: flite and espeak-ng.
    pub speech: Vec<Box<str>>,
    /// In whose name the applications are asked.
    pub account: Box<str>,
    /// Signs the requests to them.
    pub auth_token: Option<Box<str>>,
    /// Calls are resources of the REST interface.
    pub records: bool,
}

/// A number, and the application that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The user part of its address, without a leading `+`.
    pub number: Box<str>,
    pub url: Box<str>,
    pub method: Method,
    pub fallback: Option<Box<str>>,
}

/// That of the administrator in every installation of RestComm: its applications know it.
const ACCOUNT: &str = "ACae6e420f425248d6a26948c17a9e2acf";

impl Voice {
    pub fn is_on(&self) -> bool {
        self.media.is_some()
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("voice");
        let (media, advertise, ports) = sockets(&mut section);
        let numbers: Vec<Number> = section.list(
            "numbers",
            Vec::new(),
            "Numbers that applications answer, in every domain served: 1234 is also +1234. `method` is POST unless it says GET; `fallback` is asked when `url` gives no document.",
        );
        if media.is_none() && !numbers.is_empty() {
            section.mistake("numbers", "`numbers` without `media`", "`media`, the address for their sound");
        }
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
                "Whether applications and the URLs that they name may be in this machine's own network (loopback, private and link-local addresses).",
            ),
            prompts: section.optional("prompts", "Folder of sounds that documents name as `file:NAME`."),
            speech: section.list(
                "speech",
                Vec::new(),
                "Program that speaks, and its arguments, in which `{voice}` and `{language}` are replaced: text in, WAV out. flite and espeak-ng when empty.",
            ),
            account: section.key("account", ACCOUNT.into(), "`AccountSid` of requests to applications, and the first account of the REST interface."),
            auth_token: section.optional(
                "auth_token",
                "Secret that signs requests to applications (`X-Twilio-Signature`), and that account's token. Without it requests are not signed, and the token is made at the first start.",
            ),
            records: section.key(
                "records",
                true,
                "Whether calls and what went wrong with them can be asked for by REST. Two writes a call.",
            ),
        };
        if !ivr::sid::is(ivr::sid::ACCOUNT, &voice.account) {
            section.mistake("account", "`account` is no sid", "AC and 32 hexadecimal digits");
        }
        section.finish();
        voice
    }
}

/// Where media is received, what callers are told of it, and on which ports.
fn sockets(section: &mut Section<'_, '_>) -> (Option<IpAddr>, Option<IpAddr>, RangeInclusive<u16>) {
    let media = section
        .optional("media", "Address at which media is received. Applications answer no calls without it.")
        .map(|Address(ip)| ip);
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

impl Default for Voice {
    fn default() -> Self {
        super::Config::default().voice
    }
}

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

struct Ports(RangeInclusive<u16>);

impl Value for Ports {
    const EXPECTED: &'static str = "a range of at least two ports, as \"20000-39999\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let (first, last) = value.as_str()?.split_once('-')?;
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first > 0 && first < last).then_some(Ports(first..=last))
    }

    fn show(&self) -> String {
        format!("\"{}-{}\"", self.0.start(), self.0.end())
    }
}

impl Value for Number {
    const EXPECTED: &'static str = "{ number = \"1234\", url = \"http://…\" }, and perhaps `method` (\"GET\" or \"POST\") and `fallback`, a URL";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let table = value.as_table()?;
        if table.keys().any(|key| !["number", "url", "method", "fallback"].contains(&&**key.get_ref())) {
            return None;
        }
        let text = |name: &str| table.get(name).map(|value| value.get_ref().as_str());
        let url = |name: &str| match text(name) {
            None => Some(None),
            Some(given) => ivr::request::resolve(None, given?, &["http", "https"]).map(Some),
        };
        let number = text("number")??;
        let number = number.strip_prefix('+').unwrap_or(number);
        let method = match text("method") {
            None => Method::Post,
            Some(given) => Method::parse(given?)?,
        };
        (!number.is_empty()).then_some(())?;
        Some(Number {
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
