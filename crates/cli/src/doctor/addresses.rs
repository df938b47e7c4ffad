//! The addresses that peers are told: behind NAT a private one leads nowhere.
//!
//! Two are compared: the one in signalling (`[sip] advertise`, or else the addresses of the listeners) and the one of sound (`[voice]
//! media_advertise`). A public one for calls and a private one for sound is the usual cause of calls without sound. Where chat clients find the proxy of
//! bytestreams is told, too: behind NAT transfers fail there, and files go by other ways.

use std::net::IpAddr;

use config::Config;
use stdx::address::is_private;

use super::Finding;

const CHECK: &str = "addresses";

/// `own`: the addresses of this machine.
pub(super) fn check(config: &Config, own: &[IpAddr]) -> Vec<Finding> {
    let listens_for_others = config.sip.listen.iter().any(|listener| !listener.address.ip().is_loopback());
    let mut findings = if listens_for_others {
        let mut findings = vec![signalling(config, own)];
        findings.extend(media(config));
        findings.extend(media_socket(config, own));
        findings
    } else {
        vec![Finding::good(CHECK, "SIP listens on loopback: only this machine reaches it")]
    };
    findings.extend(bytestreams(config));
    findings
}

/// The address of the proxy of bytestreams. `None`: there is no proxy, or clients are told a name, which DNS answers for.
fn bytestreams(config: &Config) -> Option<Finding> {
    let bytestreams = &config.bytestreams;
    let listener = bytestreams.listen.first()?.address;
    let port = bytestreams.port.unwrap_or(listener.port());
    // As the node tells it (`server/src/node/xmpp.rs`): at every address it is a name, or what `[sip] advertise` is.
    let told = match (&bytestreams.host, listener.ip()) {
        (Some(host), _) => host.parse::<IpAddr>().ok()?,
        (None, ip) if ip.is_unspecified() => config.sip.advertise.as_deref()?.parse().ok()?,
        (None, ip) => ip,
    };
    let mend = "where clients come from the Internet, set [xmpp.bytestreams] host to the public name or address, and forward the port";
    let listens_for_others = config.xmpp.listen.iter().any(|listener| !listener.address.ip().is_loopback());
    let what = format!("chat clients are told {told}, port {port}, for bytestreams");
    Some(if told.is_loopback() && listens_for_others {
        Finding::problem(CHECK, format!("{what}: only this machine reaches that"), mend)
    } else if is_private(told) && !told.is_loopback() {
        Finding::warning(CHECK, format!("{what}, a private address"), mend)
    } else {
        Finding::good(CHECK, what)
    })
}

/// A private address is only a warning: phones may all be in the same network.
fn signalling(config: &Config, own: &[IpAddr]) -> Finding {
    let mend = "where phones come from the Internet, set [sip] advertise to the public name or address, and forward the ports";
    if let Some(host) = &config.sip.advertise {
        return match host.parse::<IpAddr>() {
            Ok(ip) if is_private(ip) => {
                Finding::warning(CHECK, format!("[sip] advertise is {ip}, a private address"), mend)
            }
            _ => Finding::good(CHECK, format!("peers are told {host}")),
        };
    }
    let listened: Vec<IpAddr> = config.sip.listen.iter().map(|listener| listener.address.ip()).collect();
    // A listener at all addresses: each address of the machine may be told.
    let told: Vec<IpAddr> = if listened.iter().any(IpAddr::is_unspecified) { own.to_vec() } else { listened };
    match told.iter().find(|ip| !is_private(**ip)) {
        Some(public) => Finding::good(CHECK, format!("peers are told {public}")),
        None => Finding::warning(
            CHECK,
            "peers are told a private address: phones behind other networks cannot reach it",
            mend,
        ),
    }
}

/// The address of sound, beside the one of signalling.
fn media(config: &Config) -> Option<Finding> {
    let told = config.voice.advertise.or(config.voice.media)?;
    let mend = "set [voice] media_advertise to the address that phones send sound to, and forward the ports of media_ports";
    // No peer can send there, unlike to a private address.
    if told.is_unspecified() || told.is_loopback() {
        return Some(Finding::problem(CHECK, format!("callers are told to send sound to {told}"), mend));
    }
    // A name is not looked up here: then nothing can be said about the two.
    let signalling = config.sip.advertise.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
    Some(match signalling {
        Some(public) if !is_private(public) && is_private(told) => Finding::problem(
            CHECK,
            format!("peers are told {public} for calls, and the private address {told} for sound"),
            mend,
        ),
        _ => Finding::good(CHECK, format!("callers are told to send sound to {told}")),
    })
}

/// The address of the sockets of sound, if it is not of this machine: each call of an application would be refused.
fn media_socket(config: &Config, own: &[IpAddr]) -> Option<Finding> {
    let ip = config.voice.media.filter(|ip| !ip.is_loopback() && !own.contains(ip))?;
    let mend =
        "take one that `ip address` shows; the public address of a NAT goes into [voice] media_advertise";
    Some(Finding::problem(
        CHECK,
        format!("no interface of this machine has {ip}, the address of [voice] media"),
        mend,
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn states(text: &str, own: &str) -> Vec<String> {
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let findings = check(&config, &[[127, 0, 0, 1].into(), own.parse().unwrap()]);
        findings.iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect()
    }

    #[test]
    fn a_private_address_that_peers_are_told_is_found() {
        let all = "[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\n";
        assert!(states("", "10.0.0.7")[0].starts_with("ok SIP listens on loopback"));
        assert!(states(all, "10.0.0.7")[0].starts_with("warning"));
        assert_eq!(states(all, "8.8.8.8"), ["ok peers are told 8.8.8.8"]);
        assert_eq!(
            states(&format!("{all}advertise = \"sip.a.test\"\n"), "10.0.0.7"),
            ["ok peers are told sip.a.test"]
        );
        assert!(states(&format!("{all}advertise = \"10.0.0.7\"\n"), "10.0.0.7")[0].starts_with("warning"));
        assert!(states("[sip]\nlisten = [\"udp:10.0.0.7:5060\"]\n", "8.8.8.8")[0].starts_with("warning"));
    }

    #[test]
    fn the_address_of_bytestreams_is_one_that_chat_clients_reach() {
        let of = |clients: &str, listen: &str, more: &str| {
            let text = format!(
                "{more}[xmpp]\nlisten = [\"tcp:{clients}:5222\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:{listen}:7777\"]\n"
            );
            states(&text, "10.0.0.7")
        };
        let found = |clients, listen| of(clients, listen, "").get(1).cloned();
        let told = |ip: &str| format!("chat clients are told {ip}, port 7777, for bytestreams");
        assert_eq!(found("0.0.0.0", "8.8.8.8"), Some(format!("ok {}", told("8.8.8.8"))));
        assert_eq!(found("127.0.0.1", "127.0.0.1"), Some(format!("ok {}", told("127.0.0.1"))));
        let private = format!("warning {}, a private address", told("10.0.0.7"));
        assert_eq!(found("0.0.0.0", "10.0.0.7"), Some(private));
        let loopback = format!("problem {}: only this machine reaches that", told("127.0.0.1"));
        assert_eq!(found("0.0.0.0", "127.0.0.1"), Some(loopback));
        assert_eq!(found("0.0.0.0", "0.0.0.0"), None, "a name is told");
        let advertised = of("0.0.0.0", "0.0.0.0", "[sip]\nadvertise = \"8.8.8.8\"\n");
        assert_eq!(advertised.get(1), Some(&format!("ok {}", told("8.8.8.8"))));
        let text = "[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:10.0.0.7:7777\"]\nhost = \"8.8.8.8\"\nport = 80\n";
        assert_eq!(states(text, "10.0.0.7")[1], "ok chat clients are told 8.8.8.8, port 80, for bytestreams");
    }

    #[test]
    fn sound_goes_where_signalling_goes() {
        let public = "[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\nadvertise = \"8.8.8.8\"\n[voice]\n";
        let private = states(&format!("{public}media = \"10.0.0.7\"\n"), "10.0.0.7");
        assert!(private[1].starts_with("problem peers are told 8.8.8.8 for calls"), "{private:?}");
        assert_eq!(private.len(), 2, "{private:?}");
        let foreign = states(&format!("{public}media = \"8.8.8.8\"\n"), "10.0.0.7");
        let expected = "problem no interface of this machine has 8.8.8.8, the address of [voice] media";
        assert_eq!(foreign.get(2).map(String::as_str), Some(expected), "{foreign:?}");
        let told =
            states(&format!("{public}media = \"10.0.0.7\"\nmedia_advertise = \"8.8.8.8\"\n"), "10.0.0.7");
        assert_eq!(told[1], "ok callers are told to send sound to 8.8.8.8");
        let loopback = states(&format!("{public}media = \"127.0.0.1\"\n"), "10.0.0.7");
        assert!(loopback[1].starts_with("problem callers are told"), "{loopback:?}");
    }
}
