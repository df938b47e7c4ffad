//! All that a node listens at, by service: for `belfry status`, the log and the greeting.
//! The addresses at which the node serves, by service, for the greeting, `belfry status` and a service manager.
//!
//! The names of services are fixed texts: other programs compare them.

use std::net::SocketAddr;

use control::Listening;

use config::{Config, listener_text};
use net::Listener;

pub(super) const SIP: &str = "SIP";
pub(super) const CHAT: &str = "chat";
pub(super) const SERVERS: &str = "servers";
pub(super) const COMPONENTS: &str = "components";
pub(super) const BYTESTREAMS: &str = "bytestreams";
pub(super) const METRICS: &str = "metrics";
pub(super) const REST: &str = "REST";
pub(super) const CONSOLE: &str = "console";

/// Those that are on. The addresses of HTTP are the real ones, where the configuration has port 0.
pub(super) fn services(
    config: &Config,
    http: SocketAddr,
    (rest, console): (Option<SocketAddr>, Option<SocketAddr>),
) -> Vec<Listening> {
    let listeners = |service: &str, listeners: &[Listener]| Listening {
        service: service.into(),
        at: listeners.iter().map(|listener| listener_text(listener).into()).collect(),
    };
    let page = |service: &str, url: String| Listening { service: service.into(), at: vec![url.into()] };
    let mut services = vec![
        listeners(SIP, &config.sip.listen),
        listeners(CHAT, &config.xmpp.listen),
        listeners(SERVERS, &config.federation.listen),
        listeners(COMPONENTS, &config.xmpp.components.listen),
        listeners(BYTESTREAMS, &config.bytestreams.listen),
        page(METRICS, format!("http://{http}/metrics")),
    ];
    services.extend(rest.map(|rest| page(REST, format!("http://{rest}{}/", admin::Base::Restcomm.prefix()))));
    services.extend(console.map(|console| page(CONSOLE, format!("http://{console}/"))));
    services.retain(|service| !service.at.is_empty());
    services
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_listener_of_the_configuration_is_named_once() {
        let text = "[sip]\nlisten = [\"udp:127.0.0.1:5060\", \"tcp:127.0.0.1:5060\"]\n\
             [xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\ncomponent_listen = [\"tcp:127.0.0.1:5347\"]\n\
             [xmpp.federation]\nlisten = [\"tcp:127.0.0.1:5269\"]\n\
             [xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\n";
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let http = "127.0.0.1:9090".parse().unwrap();
        let shown: Vec<String> = services(&config, http, (Some(http), Some(http)))
            .iter()
            .map(|listening| format!("{} {}", listening.service, listening.at.join(" ")))
            .collect();
        assert_eq!(
            shown,
            [
                "SIP udp:127.0.0.1:5060 tcp:127.0.0.1:5060",
                "chat tcp:127.0.0.1:5222",
                "servers tcp:127.0.0.1:5269",
                "components tcp:127.0.0.1:5347",
                "bytestreams tcp:127.0.0.1:7777",
                "metrics http://127.0.0.1:9090/metrics",
                "REST http://127.0.0.1:9090/restcomm/2012-04-24/",
                "console http://127.0.0.1:9090/",
            ]
        );
        let quiet = Config::parse("", Path::new("belfry.toml")).unwrap();
        let names: Vec<Box<str>> =
            services(&quiet, http, (None, None)).into_iter().map(|one| one.service).collect();
        assert_eq!(names, ["SIP".into(), "metrics".into()]);
    }

    #[test]
    fn the_greeting_lists_every_listener() {
        let config =
            Config::parse("[xmpp]\nlisten = [\"tcp:[::1]:5222\"]\n", Path::new("belfry.toml")).unwrap();
        let services = services(&config, "127.0.0.1:9090".parse().unwrap(), (None, None));
        let said = cli::greeting::listening(&services);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "listening");
        assert!(lines[1].starts_with("  SIP          udp:127.0.0.1:5060 tcp:127.0.0.1:5060 "), "{said}");
        assert_eq!(
            lines[2..],
            ["  chat         tcp:[::1]:5222", "  metrics      http://127.0.0.1:9090/metrics"]
        );
    }
}
