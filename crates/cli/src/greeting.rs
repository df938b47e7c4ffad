//! Tells the operator at a terminal, once the node is up, how to sign in with a chat client and with a phone.
//!
//! `sign_in` is also printed by `belfry account add`. Each line is made only of listeners that the configuration has.

use std::io::{self, IsTerminal as _, Write as _};

use config::Config;
use control::Listening;
use net::Listener;
use sip::transport::Transport;

/// On standard error, as the log, and only if that is a terminal.
pub fn greet(config: &Config, services: &[Listening]) {
    if io::stderr().is_terminal() {
        // As it was called, so that the example can be typed as it stands.
        let program = std::env::args().next().unwrap_or_else(|| "belfry".into());
        let text = listening(services) + &text(config, &program);
        // The log goes to the same place: a write error means that the terminal is closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// The listeners of each service, one service a line.
pub fn listening(services: &[Listening]) -> String {
    let line = |one: &Listening| format!("  {:<12} {}\n", one.service, one.at.join(" "));
    std::iter::once("listening\n".to_owned()).chain(services.iter().map(line)).collect()
}

/// Examples with one account, to be typed as they are.
fn text(config: &Config, program: &str) -> String {
    let domain = &config.sip.default_domain;
    let file = config.file.as_deref().filter(|file| *file != std::path::Path::new(config::USUAL_FILE));
    let file = file.map_or(String::new(), |file| format!(" --config {}", file.display()));
    format!("to sign in     {program} account add alice@{domain}{file}\n") + &sign_in(config, "alice", domain)
}

/// The ways to sign in to this account with clients and phones, one a line; nothing for services that the
/// node does not offer. A name that only phones can have is told.
pub(super) fn sign_in(config: &Config, user: &str, domain: &str) -> String {
    let mut text = String::new();
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<12} {what}\n"));
    // XMPP compares names in small letters: a client that signs in as Dave asks for dave.
    if xmpp::Jid::new(Some(user), domain, None).is_ok_and(|jid| jid.local() == Some(user)) {
        profanity(config, user, domain).into_iter().for_each(|words| line("profanity", words));
        page(config).into_iter().for_each(|url| line("a browser", url));
        web(config).into_iter().for_each(|url| line("web chat", url));
    } else if !config.xmpp.listen.is_empty() {
        // RFC 7622 §3.3.1. SIP takes such names (RFC 3261 §25.1), and so do phones.
        let why = "not with this name: XMPP has no capitals and no \" & ' / : < > in names, nor letters outside its profile (RFC 7622)";
        line("chat", why.into());
    }
    // Phones prove passwords by digests only (RFC 3261 §22.4).
    if let Some((host, port, transport)) = phone(config).filter(|_| config.accounts.digests) {
        let via = format!("sip:{host}:{port};transport={transport}");
        let name = sip::wire::escape_user(user);
        line("baresip", format!("<sip:{name}@{domain}>;auth_pass=PASSWORD;outbound=\"{via}\""));
        line("Linphone", format!("user {user}, domain {domain}, SIP proxy <{via}>"));
    }
    text
}

/// The command to type there.
fn profanity(config: &Config, user: &str, domain: &str) -> Option<String> {
    // STARTTLS first: every client knows it.
    let (listener, is_direct) = match chat(config, Transport::Tcp) {
        Some(listener) => (listener, false),
        None => (chat(config, Transport::Tls)?, true),
    };
    // No authority has signed the certificate that the node made for itself.
    let is_of_authority = config.tls.certificate.is_some() || config.acme.is_on;
    let tls = match (is_direct, is_of_authority) {
        (true, _) => " tls legacy",
        (false, false) => " tls trust",
        (false, true) => "",
    };
    let (host, port) = (host_of(config, listener), listener.address.port());
    // Brackets are of URIs.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(format!("/connect {user}@{domain} server {host} port {port}{tls}"))
}

/// The page of users, where it is served.
pub(super) fn page(config: &Config) -> Option<String> {
    if !config.web.app {
        return None;
    }
    let url = match &config.web.public_url {
        Some(url) => format!("{url}/"),
        // `ws:` and `http:`, or `wss:` and `https:`: the page is at the listener of the WebSocket.
        None => web(config)?.replacen("ws", "http", 1),
    };
    Some(format!("{url}app/"))
}

/// The URL for a client in a browser.
fn web(config: &Config) -> Option<String> {
    // Without TLS only a server that does not require it accepts a sign-in.
    let plain = chat(config, Transport::Ws).filter(|_| !config.xmpp.require_tls);
    let (scheme, listener) = match plain {
        Some(listener) => ("ws", listener),
        None => ("wss", chat(config, Transport::Wss)?),
    };
    Some(format!("{scheme}://{}:{}/", host_of(config, listener), listener.address.port()))
}

/// The first listener of chat with this transport.
fn chat(config: &Config, transport: Transport) -> Option<&Listener> {
    config.xmpp.listen.iter().find(|listener| listener.transport == transport)
}

/// Host, port and transport of the listener that most phones find first.
fn phone(config: &Config) -> Option<(String, u16, &'static str)> {
    let ways = [(Transport::Udp, "udp"), (Transport::Tcp, "tcp"), (Transport::Tls, "tls")];
    ways.into_iter().find_map(|(transport, name)| {
        let listener = config.sip.listen.iter().find(|listener| listener.transport == transport)?;
        Some((host_of(config, listener), listener.address.port(), name))
    })
}

/// As another machine may write it: all addresses of this one are known by its name.
fn host_of(config: &Config, listener: &Listener) -> String {
    match (listener.address.ip(), &config.sip.advertise) {
        // Given to peers for the same reason: the address of the listener is none that can be written to.
        (ip, Some(host)) if ip.is_unspecified() => config::host_in_uri(host).into_owned(),
        (ip, None) if ip.is_unspecified() => config.sip.default_domain.to_string(),
        (std::net::IpAddr::V6(ip), _) => format!("[{ip}]"),
        (ip, _) => ip.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lines(text: &str, file: &str) -> Vec<String> {
        let config = Config::parse(text, Path::new(file)).unwrap();
        super::text(&config, "target/release/belfry").lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_node_of_make_run_says_how_to_sign_in() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../belfry.toml");
        let said = lines(&std::fs::read_to_string(file).unwrap(), "belfry.toml");
        assert_eq!(
            said,
            [
                "to sign in     target/release/belfry account add alice@example.test",
                "  profanity    /connect alice@example.test server 127.0.0.1 port 5222 tls trust",
                "  a browser    http://127.0.0.1:5280/app/",
                "  web chat     ws://127.0.0.1:5280/",
                "  baresip      <sip:alice@example.test>;auth_pass=PASSWORD;outbound=\"sip:127.0.0.1:5060;transport=udp\"",
                "  Linphone     user alice, domain example.test, SIP proxy <sip:127.0.0.1:5060;transport=udp>",
            ]
        );
    }

    #[test]
    fn an_account_without_digests_has_no_line_for_phones() {
        let config = Config::parse("[accounts]\ndigests = false\n", Path::new("belfry.toml")).unwrap();
        assert_eq!(sign_in(&config, "bob", "a.test"), "");
    }

    #[test]
    fn a_name_that_xmpp_does_not_have_is_for_phones() {
        let chat = "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n";
        let config = Config::parse(chat, Path::new("belfry.toml")).unwrap();
        for name in ["a/b", "a'b", "a&b", "Dave"] {
            let said = sign_in(&config, name, "a.test");
            assert!(
                said.contains("  chat         not with this name: ") && said.contains("Linphone"),
                "{said}"
            );
            assert!(!said.contains("profanity") && !said.contains("a browser"), "{said}");
        }
        let phones_only = Config::parse("", Path::new("belfry.toml")).unwrap();
        assert!(!sign_in(&phones_only, "a/b", "a.test").contains("chat"));
    }

    #[test]
    fn only_usable_commands_are_shown() {
        let said = lines("[sip]\nlisten = [\"tls:[::1]:5061\"]\n", "other.toml");
        assert_eq!(
            said[0],
            "to sign in     target/release/belfry account add alice@localhost --config other.toml"
        );
        assert!(said[1].contains("\"sip:[::1]:5061;transport=tls\""), "{said:?}");
        assert_eq!(said.len(), 3, "no listener for chat: {said:?}");

        let said = lines(
            "[sip]\ndomains = [\"a.test\"]\nlisten = [\"ws:127.0.0.1:5080\"]\n\
             [tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n\
             [xmpp]\nlisten = [\"ws:127.0.0.1:5280\", \"tls:0.0.0.0:5223\", \"wss:0.0.0.0:5281\"]\n",
            "belfry.toml",
        );
        assert_eq!(said[1], "  profanity    /connect alice@a.test server a.test port 5223 tls legacy");
        assert_eq!(said[2], "  web chat     wss://a.test:5281/", "no sign-in at ws: without TLS");
        assert_eq!(said.len(), 3, "no phone comes by WebSocket: {said:?}");

        let page = |text: &str| {
            let listen = "[sip]\ndomains = [\"a.test\"]\n[xmpp]\nlisten = [\"wss:0.0.0.0:5281\"]\n";
            page(&Config::parse(&format!("{listen}{text}"), Path::new("belfry.toml")).unwrap())
        };
        assert_eq!(page(""), None);
        assert_eq!(page("[xmpp.web]\napp = true\n").as_deref(), Some("https://a.test:5281/app/"));
        let public = "[xmpp.web]\napp = true\npublic_url = \"https://chat.a.test\"\n";
        assert_eq!(page(public).as_deref(), Some("https://chat.a.test/app/"));

        let listen =
            "[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\"]\n[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";
        let said = lines(&format!("[sip]\nadvertise = \"sip.a.test\"\n{listen}"), "belfry.toml");
        assert_eq!(said[1], "  profanity    /connect alice@localhost server sip.a.test port 5222");
    }
}
