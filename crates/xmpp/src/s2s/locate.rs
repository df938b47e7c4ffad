//! Where another server is: RFC 6120 §3.2 and XEP-0368, from DNS records.

use stdx::draw::by_priority_and_weight;

use crate::limits;

/// One SRV record (RFC 2782). Names are absolute; a target of `.` is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// The priority: lower ones are tried first.
    pub priority: u16,
    /// The chance among records of one priority.
    pub weight: u16,
    /// The port of the target.
    pub port: u16,
    /// The name of the target.
    pub target: Box<str>,
    /// From `_xmpps-server._tcp`: TLS from the first byte.
    pub is_direct: bool,
}

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A host name or an IP address.
    pub host: Box<str>,
    /// The TCP port.
    pub port: u16,
    /// TLS begins with the first byte (XEP-0368).
    pub is_direct: bool,
}

/// RFC 6120 §14.6.
const PORT: u16 = 5269;

/// The two questions.
pub fn questions(domain: &str) -> [(String, bool); 2] {
    [(format!("_xmpps-server._tcp.{domain}."), true), (format!("_xmpp-server._tcp.{domain}."), false)]
}

/// The targets in the order in which they are tried. Both kinds of records are one list (XEP-0368 §3); the
/// same order for the same `random`. Without records it is the domain itself (RFC 6120 §3.2.2); empty when
/// the domain says that it has no server.
pub fn targets(domain: &str, records: &[Srv], random: u64) -> Vec<Target> {
    if records.is_empty() || is_address(domain) {
        return vec![Target { host: literal(domain).into(), port: PORT, is_direct: false }];
    }
    let usable = records.iter().filter(|srv| !srv.target.is_empty()).cloned().collect();
    let ordered = by_priority_and_weight(usable, |srv: &Srv| (srv.priority, srv.weight), random).into_iter();
    let target = |srv: Srv| Target { host: srv.target, port: srv.port, is_direct: srv.is_direct };
    ordered.map(target).take(limits::S2S_TARGETS).collect()
}

fn literal(domain: &str) -> &str {
    domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(domain)
}

/// It is its own place, and DNS is not asked (RFC 6120 §3.2.1).
pub fn is_address(domain: &str) -> bool {
    literal(domain).parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn srv(priority: u16, weight: u16, target: &str, is_direct: bool) -> Srv {
        Srv { priority, weight, port: 5000 + priority, target: target.into(), is_direct }
    }

    fn hosts(targets: &[Target]) -> Vec<&str> {
        targets.iter().map(|target| &*target.host).collect()
    }

    #[test]
    fn priorities_are_kept_across_both_kinds() {
        let records = [srv(20, 0, "c", false), srv(10, 0, "b", true), srv(5, 0, "a", false)];
        let targets = targets("example.net", &records, 1);
        assert_eq!(hosts(&targets), ["a", "b", "c"]);
        assert_eq!((targets[1].is_direct, targets[1].port), (true, 5010));
    }

    #[test]
    fn weights_are_chances() {
        let records = [srv(1, 90, "often", false), srv(1, 10, "seldom", false), srv(1, 0, "hardly", false)];
        let firsts = (0..1_000).map(|seed| targets("example.net", &records, seed).swap_remove(0).host);
        let often = firsts.filter(|host| **host == *"often").count();
        assert!((850..950).contains(&often), "{often}");
    }

    #[test]
    fn without_records_it_is_the_domain_and_a_dot_is_nowhere() {
        let own = Target { host: "example.net".into(), port: 5269, is_direct: false };
        assert_eq!(targets("example.net", &[], 1), [own]);
        assert_eq!(targets("example.net", &[srv(0, 0, "", false)], 1), []);
        assert_eq!(hosts(&targets("[::1]", &[], 1)), ["::1"]);
        let half = [srv(0, 0, "", true), srv(0, 0, "a", false)];
        assert_eq!(hosts(&targets("example.net", &half, 1)), ["a"], "only direct TLS is not there");
    }
}
