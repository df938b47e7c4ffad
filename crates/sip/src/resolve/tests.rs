use std::fmt::Write;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::dns::DnsData;

fn settings() -> ResolverSettings {
    ResolverSettings {
        transports: vec![Transport::Udp, Transport::Tcp, Transport::Tls],
        ipv4: true,
        ipv6: true,
    }
}

fn target(host: &str) -> NextHop {
    NextHop { host: host.into(), port: None, transport: None, secure: false }
}

/// A zone, a resolver and the queries between them.
struct World {
    resolver: Resolver,
    zone: Vec<(DnsQuery, Result<Vec<DnsRecord>, DnsFault>)>,
    now: Instant,
    log: String,
}

impl World {
    fn new(settings: ResolverSettings, zone: &str) -> Self {
        let zone = zone.lines().filter(|line| !line.trim().is_empty()).map(parse_line).fold(
            Vec::<(DnsQuery, Result<Vec<DnsRecord>, DnsFault>)>::new(),
            |mut zone, (query, answer)| {
                match zone.iter_mut().find(|(known, _)| *known == query) {
                    Some((_, Ok(records))) => records.extend(answer.unwrap()),
                    _ => zone.push((query, answer)),
                }
                zone
            },
        );
        let now = Instant::from_unix_seconds(1_000_000);
        World { resolver: Resolver::new(settings), zone, now, log: String::new() }
    }

    /// Resolves to the end and returns what was asked and found, one line each.
    fn run(&mut self, target: &NextHop) -> String {
        self.log.clear();
        let mut out = Vec::new();
        match self.resolver.resolve_address(self.now, target) {
            Some(result) => out.push(ResolveEffect::Resolved { id: 1, result }),
            None => self.resolver.resolve(self.now, 1, target, 7, &mut out),
        }
        self.settle(out);
        std::mem::take(&mut self.log)
    }

    fn settle(&mut self, mut out: Vec<ResolveEffect>) {
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    ResolveEffect::Query { dns_id, query } => {
                        writeln!(self.log, "? {query:?}").unwrap();
                        let known = self.zone.iter().find(|(known, _)| *known == query);
                        let answer = known.map_or(Err(DnsFault::NoData), |(_, answer)| answer.clone());
                        self.resolver.handle_answer(self.now, dns_id, answer, &mut out);
                    }
                    ResolveEffect::Resolved { result, .. } => self.log_result(result),
                }
            }
        }
    }

    fn log_result(&mut self, result: Result<Vec<Hop>, ResolveFault>) {
        match result {
            Ok(hops) => {
                for hop in hops {
                    let name = hop.tls_name.as_deref().unwrap_or("-");
                    writeln!(self.log, "= {:?} {} {name}", hop.transport, hop.addr).unwrap();
                }
            }
            Err(fault) => writeln!(self.log, "! {fault:?}").unwrap(),
        }
    }
}

/// `name NAPTR order preference service replacement`, `name SRV priority weight port target`, `name A ip`,
/// `name AAAA ip`, `name TYPE !Fault`. TTL 60.
fn parse_line(line: &str) -> (DnsQuery, Result<Vec<DnsRecord>, DnsFault>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name: Box<str> = words[0].into();
    let query = match words[1] {
        "NAPTR" => DnsQuery::Naptr(name),
        "SRV" => DnsQuery::Srv(name),
        "A" => DnsQuery::A(name),
        _ => DnsQuery::Aaaa(name),
    };
    let answer = match words[2] {
        "!Failed" => Err(DnsFault::Failed),
        "!Busy" => Err(DnsFault::Busy),
        _ => Ok(vec![DnsRecord { ttl: 60, data: parse_data(words[1], &words[2..]) }]),
    };
    (query, answer)
}

fn parse_data(kind: &str, words: &[&str]) -> DnsData {
    let number = |at: usize| words[at].parse().unwrap();
    match kind {
        "NAPTR" => DnsData::Naptr {
            order: number(0),
            preference: number(1),
            flags: "s".into(),
            service: words[2].into(),
            replacement: words[3].into(),
        },
        "SRV" => {
            DnsData::Srv { priority: number(0), weight: number(1), port: number(2), target: words[3].into() }
        }
        _ => DnsData::Address(words[0].parse().unwrap()),
    }
}

#[test]
fn addresses_need_no_dns() {
    let mut world = World::new(settings(), "");
    insta::assert_snapshot!(world.run(&target("192.0.2.7")), @"= Udp 192.0.2.7:5060 -");
    let port = NextHop { port: Some(5080), transport: Some(Transport::Tcp), ..target("[2001:db8::1]") };
    insta::assert_snapshot!(world.run(&port), @"= Tcp [2001:db8::1]:5080 -");
    let secure = NextHop { secure: true, transport: Some(Transport::Tcp), ..target("192.0.2.7") };
    insta::assert_snapshot!(world.run(&secure), @"= Tls 192.0.2.7:5061 -");
    let websocket = NextHop { transport: Some(Transport::Ws), ..target("192.0.2.7") };
    insta::assert_snapshot!(world.run(&websocket), @"! Unsupported");
    let impossible = NextHop { secure: true, transport: Some(Transport::Udp), ..target("192.0.2.7") };
    insta::assert_snapshot!(world.run(&impossible), @"! Unsupported");
}

/// The example of RFC 3263 §4.1 and §4.2.
#[test]
fn naptr_then_srv_then_addresses() {
    let mut world = World::new(
        settings(),
        "example.com NAPTR 50 50 SIPS+D2T _sips._tcp.example.com.
         example.com NAPTR 90 50 SIP+D2T _sip._tcp.example.com.
         example.com NAPTR 100 50 SIP+D2U _sip._udp.example.com.
         _sips._tcp.example.com SRV 0 1 5061 server1.example.com.
         _sips._tcp.example.com SRV 1 2 5061 server2.example.com
         _sip._tcp.example.com SRV 0 1 5060 server1.example.com
         _sip._tcp.example.com SRV 0 2 5060 server2.example.com
         server1.example.com A 192.0.2.1
         server1.example.com AAAA 2001:db8::1
         server2.example.com A 192.0.2.2",
    );
    insta::assert_snapshot!(world.run(&target("Example.COM.")), @r#"
    ? Naptr("example.com")
    ? Srv("_sips._tcp.example.com")
    ? Aaaa("server1.example.com")
    ? A("server1.example.com")
    ? Aaaa("server2.example.com")
    ? A("server2.example.com")
    = Tls [2001:db8::1]:5061 example.com
    = Tls 192.0.2.1:5061 example.com
    = Tls 192.0.2.2:5061 example.com
    "#);
    let no_tls = ResolverSettings { transports: vec![Transport::Udp, Transport::Tcp], ..settings() };
    let zone = std::mem::take(&mut world.zone);
    world = World { zone, ..World::new(no_tls, "") };
    insta::assert_snapshot!(world.run(&target("example.com")), @r#"
    ? Naptr("example.com")
    ? Srv("_sip._tcp.example.com")
    ? Aaaa("server2.example.com")
    ? A("server2.example.com")
    ? Aaaa("server1.example.com")
    ? A("server1.example.com")
    = Tcp 192.0.2.2:5060 -
    = Tcp [2001:db8::1]:5060 -
    = Tcp 192.0.2.1:5060 -
    "#);
}

#[test]
fn without_naptr_our_transports_are_tried() {
    let mut world = World::new(
        settings(),
        "b.test NAPTR !Failed
         _sip._tcp.b.test SRV 0 0 5070 s.b.test
         s.b.test A 192.0.2.9",
    );
    insta::assert_snapshot!(world.run(&target("b.test")), @r#"
    ? Naptr("b.test")
    ? Srv("_sip._udp.b.test")
    ? Srv("_sip._tcp.b.test")
    ? Srv("_sips._tcp.b.test")
    ? Aaaa("s.b.test")
    ? A("s.b.test")
    = Tcp 192.0.2.9:5070 -
    "#);
}

#[test]
fn without_srv_the_name_itself_is_used() {
    let mut world = World::new(settings(), "c.test A 192.0.2.3\nc.test AAAA !Failed");
    insta::assert_snapshot!(world.run(&target("c.test")), @r#"
    ? Naptr("c.test")
    ? Srv("_sip._udp.c.test")
    ? Srv("_sip._tcp.c.test")
    ? Srv("_sips._tcp.c.test")
    ? Aaaa("c.test")
    ? A("c.test")
    = Udp 192.0.2.3:5060 -
    "#);
    let secure = NextHop { secure: true, ..target("c.test") };
    world.now = world.now + Duration::from_secs(100);
    insta::assert_snapshot!(world.run(&secure), @r#"
    ? Naptr("c.test")
    ? Srv("_sips._tcp.c.test")
    ? Aaaa("c.test")
    ? A("c.test")
    = Tls 192.0.2.3:5061 c.test
    "#);
}

#[test]
fn a_port_or_a_transport_skips_naptr_and_srv() {
    let zone = "d.test A 192.0.2.4\n_sip._tcp.d.test SRV 0 0 5099 d.test";
    let mut world = World::new(ResolverSettings { ipv6: false, ..settings() }, zone);
    let port = NextHop { port: Some(5070), ..target("d.test") };
    insta::assert_snapshot!(world.run(&port), @r#"
    ? A("d.test")
    = Udp 192.0.2.4:5070 -
    "#);
    let tcp = NextHop { transport: Some(Transport::Tcp), ..target("d.test") };
    insta::assert_snapshot!(world.run(&tcp), @r#"
    ? Srv("_sip._tcp.d.test")
    = Tcp 192.0.2.4:5099 -
    "#);
}

#[test]
fn missing_records_and_silent_dns_give_different_faults() {
    let mut world = World::new(
        settings(),
        "full.test A !Busy
         broken.test A !Failed
         _sip._udp.never.test SRV 0 0 0 .
         never.test A 192.0.2.5",
    );
    let last = |text: String| text.lines().last().unwrap().to_owned();
    let with_port = |host: &str| NextHop { port: Some(5060), ..target(host) };
    assert_eq!(last(world.run(&with_port("full.test"))), "! Busy");
    assert_eq!(last(world.run(&with_port("broken.test"))), "! Failed");
    assert_eq!(last(world.run(&target("none.test"))), "! NoSuchHost");
    assert_eq!(last(world.run(&target("never.test"))), "! NoSuchHost");
    assert_eq!(world.run(&target("not a name")), "! NoSuchHost\n");
    assert_eq!(world.run(&target("")), "! NoSuchHost\n");
    assert_eq!(world.run(&target(&"a".repeat(64))), "! NoSuchHost\n");
}

#[test]
fn answers_are_kept_for_their_time() {
    let mut world = World::new(ResolverSettings { ipv6: false, ..settings() }, "e.test A 192.0.2.6");
    let known = NextHop { port: Some(5060), ..target("e.test") };
    let unknown = NextHop { port: Some(5060), ..target("f.test") };
    assert_eq!(world.run(&known), "? A(\"e.test\")\n= Udp 192.0.2.6:5060 -\n");
    assert_eq!(world.run(&unknown), "? A(\"f.test\")\n! NoSuchHost\n");
    world.now = world.now + Duration::from_secs(9);
    assert_eq!(world.run(&unknown), "! NoSuchHost\n");
    world.now = world.now + Duration::from_secs(50);
    assert_eq!(world.run(&known), "= Udp 192.0.2.6:5060 -\n");
    assert_eq!(world.run(&unknown), "? A(\"f.test\")\n! NoSuchHost\n");
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(world.run(&known), "? A(\"e.test\")\n= Udp 192.0.2.6:5060 -\n");
}

#[test]
fn one_dns_query_serves_all_waiting_resolutions() {
    let mut world = World::new(ResolverSettings { ipv6: false, ..settings() }, "g.test A 192.0.2.8");
    let next_hop = NextHop { port: Some(5060), ..target("g.test") };
    let mut out = Vec::new();
    for id in 1..=3 {
        world.resolver.resolve(world.now, id, &next_hop, id, &mut out);
    }
    assert_eq!(out.len(), 1);
    world.settle(out);
    assert_eq!(world.log.matches("= Udp 192.0.2.8:5060 -").count(), 3);
    let mut out = Vec::new();
    world.resolver.handle_answer(world.now, 1, Err(DnsFault::Failed), &mut out);
    assert_eq!(out, [], "an answer that is not awaited changes nothing");
}

#[test]
fn a_hop_that_failed_comes_last_for_a_while() {
    let zone = "h.test A 192.0.2.1\nh.test A 192.0.2.2";
    let mut world = World::new(ResolverSettings { ipv6: false, ..settings() }, zone);
    let next_hop = NextHop { port: Some(5060), ..target("h.test") };
    world.run(&next_hop);
    world.resolver.penalise(world.now, "192.0.2.1:5060".parse().unwrap(), Transport::Udp);
    assert_eq!(world.run(&next_hop), "= Udp 192.0.2.2:5060 -\n= Udp 192.0.2.1:5060 -\n");
    world.now = world.now + limits::PENALTY;
    assert_eq!(world.run(&next_hop), "= Udp 192.0.2.1:5060 -\n= Udp 192.0.2.2:5060 -\n");
}

/// RFC 2782: a weight of 3 is chosen three times as often as one of 1.
#[test]
fn weights_are_shares() {
    let record = |weight, target: &str| DnsRecord {
        ttl: 1,
        data: DnsData::Srv { priority: 1, weight, port: 5060, target: target.into() },
    };
    let records = [record(30, "often"), record(10, "seldom"), record(0, "hardly")];
    let firsts: Vec<Box<str>> =
        (0..8_000).map(|random| order::srv_in_order(&records, random)[0].target.clone()).collect();
    let count = |name: &str| firsts.iter().filter(|first| &***first == name).count();
    assert!((5_600..6_100).contains(&count("often")), "{}", count("often"));
    assert!((1_700..2_100).contains(&count("seldom")), "{}", count("seldom"));
    assert!((100..300).contains(&count("hardly")), "{}", count("hardly"));
}

#[test]
fn too_many_resolutions_are_refused() {
    let mut resolver = Resolver::new(settings());
    let now = Instant::from_unix_seconds(1);
    let mut out = Vec::new();
    for id in 0..limits::RESOLUTIONS as u64 {
        resolver.resolve(now, id, &target("slow.test"), 0, &mut out);
    }
    assert_eq!(out.len(), 1);
    resolver.resolve(now, u64::MAX, &target("slow.test"), 0, &mut out);
    assert_eq!(out[1], ResolveEffect::Resolved { id: u64::MAX, result: Err(ResolveFault::Busy) });
    let counts = resolver.counts();
    assert_eq!((counts.open, counts.asked, counts.refused), (limits::RESOLUTIONS, 1, 1));
}

fn any_name() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        Just("a.test".into()),
        Just("_sip._udp.a.test.".into()),
        Just(".".into()),
        any::<String>().prop_map(String::into_boxed_str)
    ]
}

fn any_data() -> impl Strategy<Value = DnsData> {
    let service = prop_oneof![Just("SIP+D2U"), Just("SIPS+D2T"), Just("x")];
    prop_oneof![
        (any::<u16>(), any::<u16>(), service, any_name()).prop_map(|(order, preference, service, name)| {
            let flags = "S".into();
            DnsData::Naptr { order, preference, flags, service: service.into(), replacement: name }
        }),
        (any::<u16>(), any::<u16>(), any::<u16>(), any_name())
            .prop_map(|(priority, weight, port, target)| DnsData::Srv { priority, weight, port, target }),
        any::<IpAddr>().prop_map(DnsData::Address),
    ]
}

fn any_answer() -> impl Strategy<Value = Result<Vec<DnsRecord>, DnsFault>> {
    let record = (any::<u32>(), any_data()).prop_map(|(ttl, data)| DnsRecord { ttl, data });
    prop_oneof![
        4 => prop::collection::vec(record, 0..80).prop_map(Ok),
        1 => prop_oneof![Just(DnsFault::NoName), Just(DnsFault::Failed), Just(DnsFault::Busy)].prop_map(Err),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Any records end in one bounded result, after a bounded number of questions, each asked once.
    #[test]
    fn any_records_end_in_one_result(
        answers in prop::collection::vec(any_answer(), 1..8),
        secure: bool,
        random: u64,
    ) {
        let mut resolver = Resolver::new(settings());
        let now = Instant::from_unix_seconds(1);
        let mut out = Vec::new();
        let next_hop = NextHop { secure, ..target("a.test") };
        resolver.resolve(now, 1, &next_hop, random, &mut out);
        let mut asked = Vec::new();
        let mut results = Vec::new();
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    ResolveEffect::Query { dns_id, query } => {
                        prop_assert!(!asked.contains(&query));
                        let answer = answers[asked.len() % answers.len()].clone();
                        asked.push(query);
                        resolver.handle_answer(now, dns_id, answer, &mut out);
                    }
                    ResolveEffect::Resolved { result, .. } => results.push(result),
                }
            }
        }
        prop_assert_eq!(results.len(), 1);
        prop_assert!(asked.len() <= 1 + limits::SRV_SERVICES + 2 * limits::SRV_TARGETS);
        if let Ok(hops) = &results[0] {
            prop_assert!((1..=limits::HOPS).contains(&hops.len()));
            prop_assert!(!secure || hops.iter().all(|hop| hop.transport == Transport::Tls));
        }
        prop_assert!(resolver.jobs.is_empty() && resolver.in_flight.is_empty() && resolver.query_ids.is_empty());
    }
}
