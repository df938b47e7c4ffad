//! The table of limits in `docs/operating.md`, made from the constants and the defaults of the configuration.

use std::time::Duration;

use config::{KeyDoc, duration_text};

/// The table stands between these two lines.
const BEGIN: &str = "<!-- Made by the code: BLESS=1 cargo test -p server writes it anew. -->";
const END: &str = "<!-- The end of what the code makes. -->";

/// The value of a limit, as the table shows it.
enum Value {
    /// A key of the configuration, whose default is shown.
    Key(&'static str),
    /// A constant, which no key changes.
    Fixed(String),
}

/// A limit, and the answer beyond it.
struct Row(&'static str, Value, &'static str);

fn number(count: impl TryInto<u64>) -> Value {
    Value::Fixed(count.try_into().unwrap_or(u64::MAX).to_string())
}

fn time(time: Duration) -> Value {
    Value::Fixed(duration_text(time))
}

fn size(bytes: usize) -> Value {
    let (count, unit) = if bytes >= 1 << 20 { (bytes >> 20, "MiB") } else { (bytes >> 10, "KiB") };
    Value::Fixed(format!("{count} {unit}"))
}

/// Connections of all services.
fn connections() -> Vec<Row> {
    use Value::Key;
    vec![
        Row("connections of one shard", Key("limits.connections"), "closed when they come"),
        Row(
            "connections of one source (IPv4 address, IPv6 /64) to SIP, to chat and to federation, each",
            Key("limits.connections_per_source"),
            "closed when they come",
        ),
        Row(
            "connections in progress (no message, sign-in or request yet) at one kind of listener, or a quarter of the process's open files",
            number(net::limits::IN_PROGRESS),
            "the one idle longest is closed",
        ),
        Row("TLS and WebSocket handshake", time(net::limits::HANDSHAKE_TIMEOUT), "closed"),
        Row("TLS handshakes of one shard that compute at once", number(net::limits::HANDSHAKES), "wait"),
    ]
}

fn of_sip() -> Vec<Row> {
    use Value::Key;
    vec![
        Row("start line and headers of a SIP message", size(sip::limits::MAX_STREAM_HEAD), "closed"),
        Row("body of a SIP message", size(sip::limits::MAX_STREAM_BODY), "413, closed"),
        Row("first SIP message of a connection", time(net::limits::FIRST_MESSAGE), "closed"),
        Row("a SIP message from its first byte to its last", time(net::limits::MESSAGE), "closed"),
        Row("silence on a SIP connection", Key("sip.tcp_idle"), "closed"),
        Row(
            "new requests a second of one UDP source that has proved nothing",
            Key("sip.unproved_requests"),
            "dropped; the client sends again",
        ),
        Row("phones of one account", Key("sip.max_contacts"), "403"),
        Row("longest registration", Key("sip.max_expires"), "cut to it"),
        Row("how long a call rings", Key("sip.timer_c"), "408"),
        Row("targets that ring at once", number(sip::limits::FORK_BRANCHES), "the others do not ring"),
        Row("requests of one shard under way", number(sip::limits::CONTEXTS), "503"),
        Row("transactions of one shard", number(sip::limits::TRANSACTIONS), "503"),
        Row(
            "calls of one shard whose messages are remembered",
            number(sip::limits::LADDERS),
            "those are forgotten that had no message for longest",
        ),
        Row(
            "calls of one shard that are begun to be remembered in a second",
            number(sip::limits::LADDERS_PER_SECOND),
            "not remembered",
        ),
        Row("messages kept for one account that is away", number(router::limits::KEPT_PER_ADDRESS), "480"),
    ]
}

fn of_applications() -> Vec<Row> {
    use Value::Key;
    vec![
        Row("calls with applications of one shard", number(sip::limits::SESSIONS), "503"),
        Row("UDP ports for media, two a call", Key("voice.media_ports"), "503"),
        Row("length of a call", time(ivr::limits::CALL_DURATION), "ended"),
        Row("silence of a call's media", Key("voice.media_timeout"), "ended"),
        Row("recordings at once", number(voice_io::limits::RECORDINGS), "error 13600"),
        Row("conversions to MP3 at once; the others wait", number(voice_io::limits::ENCODERS), "wait"),
        Row("conversions to MP3 that run or wait", number(voice_io::limits::ENCODINGS), "429"),
        Row("a conversion to MP3", time(voice_io::limits::ENCODE_TIME), "the encoder is killed, 500"),
        Row("messages of one voicemail", number(crate::limits::VOICEMAIL), "the recording is in none"),
    ]
}

fn of_http() -> Vec<Row> {
    vec![
        Row(
            "HTTP connections of one source to metrics and REST",
            number(web::limits::HTTP_CONNECTIONS),
            "closed when they come",
        ),
        Row("head of an HTTP request", size(web::limits::HTTP_BUFFER), "431"),
        Row("body of a REST request", size(admin::limits::MAX_BODY), "413"),
        Row("a REST request's body from its first byte to its last", time(admin::limits::BODY_TIME), "408"),
        Row("REST requests at work or being answered", number(web::limits::REST_REQUESTS), "503"),
        Row("of these, from one source", number(web::limits::REST_REQUESTS_PER_SOURCE), "429"),
        Row(
            "clients of the control socket",
            number(control::limits::CONTROL_CONNECTIONS),
            "closed when they come",
        ),
    ]
}

fn of_chat() -> Vec<Row> {
    use Value::Key;
    vec![
        Row("a stanza", Key("xmpp.max_stanza"), "`policy-violation`, closed"),
        Row(
            "a stanza before the sign-in",
            size(::xmpp::limits::STANZA_BEFORE_AUTH),
            "`policy-violation`, closed",
        ),
        Row("time to sign in", Key("xmpp.sign_in"), "`connection-timeout`, closed"),
        Row(
            "sessions of one account",
            Key("xmpp.sessions_per_account"),
            "refused; or the oldest ends (`session_ends_oldest`)",
        ),
        Row("stanzas a second of one client", Key("xmpp.stanzas_per_second"), "read more slowly"),
        Row("bytes a second of one client", Key("xmpp.bytes_per_second"), "read more slowly"),
        Row(
            "stanzas a second of another server",
            Key("xmpp.federation.stanzas_per_second"),
            "read more slowly",
        ),
        Row("bytes a second of another server", Key("xmpp.federation.bytes_per_second"), "read more slowly"),
        Row("time of another server to prove its domain", Key("xmpp.federation.authorize"), "closed"),
        Row(
            "time of a web server to vouch for the certificate of another server",
            time(::xmpp::limits::POSH_TIME),
            "no proof",
        ),
        Row("a file", Key("xmpp.uploads.max_size"), "`not-acceptable`"),
        Row("files of one user a day", Key("xmpp.uploads.per_day"), "`resource-constraint`"),
        Row("all files", Key("xmpp.uploads.total"), "`resource-constraint`"),
        Row("bytestreams at the same time", Key("xmpp.bytestreams.transfers"), "`resource-constraint`"),
        Row(
            "of these, of one account",
            number(bytestreams::limits::TRANSFERS_PER_ACCOUNT),
            "`resource-constraint`",
        ),
        Row("silence of a bytestream", Key("xmpp.bytestreams.idle"), "closed"),
    ]
}

/// The table with the two lines around it.
///
/// # Errors
/// The key of a row that is not in the configuration.
pub fn limits_table() -> Result<String, &'static str> {
    let keys = config::keys();
    let is = |key: &KeyDoc, name: &str| name.rsplit_once('.') == Some((key.section, key.name));
    let mut table = format!("{BEGIN}\n| limit | configured by | default | beyond |\n|---|---|---|---|\n");
    for Row(what, value, beyond) in
        [connections(), of_sip(), of_applications(), of_http(), of_chat()].into_iter().flatten()
    {
        let (key, default) = match value {
            Value::Fixed(value) => ("fixed".to_owned(), value),
            Value::Key(name) => {
                let key = keys.iter().find(|key| is(key, name)).ok_or(name)?;
                let (section, key_name) = (key.section, key.name);
                let default = key.default.as_deref().ok_or(name)?;
                (format!("`[{section}] {key_name}`"), default.trim_matches('"').to_owned())
            }
        };
        table.push_str(&format!("| {what} | {key} | {default} | {beyond} |\n"));
    }
    table.push_str(END);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_limits_is_that_of_the_code() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let made = format!("{before}{}{after}", limits_table().unwrap());
        crate::testing::assert_committed("docs/operating.md", &made);
    }
}
