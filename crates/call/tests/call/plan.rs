//! The routing plan as an operator would try it out.

use std::net::SocketAddr;

use call::{
    Caller, Decision, DownTargets, Member, Plan, PlanRequest, PlanSettings, Route, RouteTarget, SourceProof,
    Target,
};
use proptest::prelude::*;

const ALICE: Caller<'_> = Caller::Account("alice@example.com");

fn route(name: &str, pattern: &str, targets: &[&str]) -> Route {
    let member = |text: &&str| Member { to: text.parse().unwrap(), priority: 0, weight: 1 };
    Route {
        name: name.into(),
        priority: 100,
        pattern: pattern.into(),
        domain: None,
        targets: targets.iter().map(member).collect(),
        strip: 0,
        prefix: "".into(),
        open: false,
        probe: true,
        by_address: false,
        certificates: Vec::new(),
        max_rate: None,
        deny: Vec::new(),
    }
}

fn plan(routes: Vec<Route>) -> Plan {
    let settings = PlanSettings {
        domains: vec!["Example.com".into(), "example.org".into(), "bücher.example".into()],
        spellings: vec![("xn--bcher-kva.example".into(), "bücher.example".into())],
        default_domain: None,
        names: vec!["sip1.example.net".into()],
        local: vec!["192.0.2.1:5060".parse().unwrap(), "[2001:db8::1]:5060".parse().unwrap()],
        is_awaited: false,
    };
    Plan::new(&settings, routes).unwrap()
}

fn ask(plan: &Plan, caller: Caller<'_>, uri: &str) -> Decision {
    let (user, host) = uri.split_once('@').unwrap();
    let bare_v6 = host.starts_with('[') && host.ends_with(']');
    let (host, port) = match host.rsplit_once(':').filter(|_| !bare_v6) {
        Some((host, port)) => (host, Some(port.parse().unwrap())),
        None => (host, None),
    };
    plan.decide(&PlanRequest { user, host, port, caller }, 1, &DownTargets::default())
}

/// In a word: the account, the route and the user, or the code.
fn word(plan: &Plan, caller: Caller<'_>, uri: &str) -> String {
    match ask(plan, caller, uri) {
        Decision::Local { user, domain } => format!("{user}@{domain}"),
        Decision::Targets { route, user, .. } => format!("{route} {user}"),
        Decision::Refuse { code, .. } => code.to_string(),
    }
}

#[test]
fn domains_and_hosts_of_ours_are_local_and_others_are_not_relayed() {
    let plan = plan(vec![]);
    for (uri, expected) in [
        ("bob@EXAMPLE.com", "bob@example.com"),
        ("bob@example.org:5070", "bob@example.org"),
        ("bob@192.0.2.1", "bob@example.com"),
        ("bob@192.0.2.1:5060", "bob@example.com"),
        ("bob@[2001:DB8::1]:5060", "bob@example.com"),
        ("bob@[2001:db8:0::1]", "bob@example.com"),
        ("bob@sip1.example.net", "bob@example.com"),
    ] {
        assert_eq!(word(&plan, Caller::Stranger, uri), expected, "{uri}");
    }
    for uri in ["bob@example.net", "bob@192.0.2.1:5061", "bob@192.0.2.2", "bob@sub.example.com"] {
        assert_eq!(word(&plan, Caller::Stranger, uri), "403", "{uri}");
        assert_eq!(word(&plan, ALICE, uri), "404", "{uri}");
        assert_eq!(word(&plan, Caller::Trunk("gw"), uri), "404", "{uri}");
    }
    assert_eq!(word(&plan, ALICE, "@example.com"), "404");
    let nowhere = Plan::new(
        &PlanSettings { local: vec!["192.0.2.1:5060".parse().unwrap()], ..PlanSettings::default() },
        vec![],
    );
    assert_eq!(word(&nowhere.unwrap(), ALICE, "bob@192.0.2.1"), "404");
}

#[test]
fn the_more_particular_pattern_wins() {
    let plan = plan(vec![
        route("any", "*", &["192.0.2.9"]),
        route("desk", "desk-*", &["192.0.2.9"]),
        route("regex", "~\\d{4}", &["192.0.2.9"]),
        route("world", "+*", &["192.0.2.9"]),
        route("germany", "+49*", &["192.0.2.9"]),
        route("berlin", "4930*", &["192.0.2.9"]),
        route("office", "+49301234", &["192.0.2.9"]),
    ]);
    for (user, expected) in [
        ("+49301234", "office +49301234"),
        ("49301234", "office 49301234"),
        ("+49-30-1234", "office +49-30-1234"),
        ("+493012345", "berlin +493012345"),
        ("+498912345", "germany +498912345"),
        ("7000", "regex 7000"),
        ("desk-1", "desk desk-1"),
        ("bob", "any bob"),
    ] {
        assert_eq!(word(&plan, ALICE, &format!("{user}@example.com")), expected);
    }
}

#[test]
fn priority_goes_before_particularity() {
    let mut first = route("first", "*", &["192.0.2.9"]);
    first.priority = 1;
    let plan = plan(vec![route("office", "+49301234", &["192.0.2.9"]), first]);
    assert_eq!(word(&plan, ALICE, "+49301234@example.com"), "first +49301234");
}

#[test]
fn strangers_take_only_open_routes() {
    let mut support = route("support", "800*", &["192.0.2.9"]);
    support.open = true;
    let plan = plan(vec![route("world", "+*", &["192.0.2.9"]), route("gw", "8*", &["192.0.2.9"]), support]);
    assert_eq!(word(&plan, Caller::Stranger, "800123@example.com"), "support 800123");
    // A closed route does not exist for them: this is an account's name like any other.
    assert_eq!(word(&plan, Caller::Stranger, "+4930@example.com"), "+4930@example.com");
    assert_eq!(word(&plan, Caller::Trunk("gw"), "890@example.com"), "gw 890");
}

#[test]
fn other_domains_are_reached_by_routes_that_name_them() {
    let mut partner = route("partner", "*", &["gw.partner.example"]);
    partner.domain = Some("*.Partner.example".into());
    let plan = plan(vec![partner, route("any", "*", &["192.0.2.9"])]);
    assert_eq!(word(&plan, ALICE, "bob@eu.partner.example"), "partner bob");
    assert_eq!(word(&plan, ALICE, "bob@example.com"), "any bob");
    assert_eq!(word(&plan, ALICE, "bob@elsewhere.example"), "404");
    assert_eq!(word(&plan, Caller::Stranger, "bob@eu.partner.example"), "403");
}

#[test]
fn numbers_are_rewritten() {
    for (strip, prefix, user, expected) in [
        (0, "", "+4930123", "r +4930123"),
        (2, "0", "+4930123", "r 030123"),
        (1, "+49", "030123", "r +4930123"),
        (0, "99", "+4930123", "r +994930123"),
        (0, "+1", "5551234", "r +15551234"),
        (3, "", "123", "404"),
    ] {
        let mut route = route("r", "*", &["192.0.2.9"]);
        (route.strip, route.prefix) = (strip, prefix.into());
        assert_eq!(word(&plan(vec![route]), ALICE, &format!("{user}@example.com")), expected);
    }
}

#[test]
fn a_number_may_be_an_account() {
    let plan = plan(vec![route("did", "+49301234", &["account:bob@Example.com"])]);
    assert_eq!(word(&plan, ALICE, "49301234@example.com"), "bob@example.com");
}

fn group_of_four() -> Plan {
    let mut route = route("group", "*", &["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]);
    for (member, (priority, weight)) in route.targets.iter_mut().zip([(1, 3), (1, 1), (1, 0), (2, 1)]) {
        (member.priority, member.weight) = (priority, weight);
    }
    plan(vec![route])
}

fn hosts(plan: &Plan, random: u64, down: &DownTargets) -> Vec<Vec<String>> {
    let request = PlanRequest { user: "x", host: "example.com", port: None, caller: ALICE };
    let Decision::Targets { groups, .. } = plan.decide(&request, random, down) else { panic!() };
    let hosts = |group: &call::TargetGroup| group.targets.iter().map(|t| t.host.to_string()).collect();
    groups.iter().map(hosts).collect()
}

#[test]
fn weights_share_the_calls_and_priorities_wait() {
    let plan = group_of_four();
    let mut firsts = [0u32; 2];
    for random in 0..10_000 {
        let groups = hosts(&plan, random, &DownTargets::default());
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].len(), &*groups[0][2], &*groups[1][0]), (3, "192.0.2.3", "192.0.2.4"));
        firsts[usize::from(groups[0][0] == "192.0.2.2")] += 1;
    }
    assert!((7_300..7_700).contains(&firsts[0]), "3 in 4, not {firsts:?}");
    assert_eq!(hosts(&plan, 5, &DownTargets::default()), hosts(&plan, 5, &DownTargets::default()));
}

#[test]
fn targets_that_are_down_are_skipped_unless_all_are() {
    let plan = group_of_four();
    let down = |hosts: &[&str]| hosts.iter().map(|host| host.parse::<Target>().unwrap()).collect();
    assert_eq!(hosts(&plan, 1, &down(&["192.0.2.1", "192.0.2.3"])), [["192.0.2.2"], ["192.0.2.4"]]);
    assert_eq!(hosts(&plan, 1, &down(&["192.0.2.1", "192.0.2.2", "192.0.2.3"])), [["192.0.2.4"]]);
    let all = down(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]);
    assert_eq!(hosts(&plan, 1, &all).concat().len(), 4);
}

#[test]
fn trunks_are_known_by_where_they_send_from() {
    let plan = plan(vec![
        route("port", "1*", &["198.51.100.1:5080"]),
        route("any port", "2*", &["198.51.100.2"]),
        route("tcp", "3*", &["[2001:db8::3]:5060;transport=tcp"]),
        route("name", "4*", &["gw.example.net"]),
    ]);
    for (source, trunk) in [
        ("198.51.100.1:5080", Some("port")),
        ("[::ffff:198.51.100.1]:5080", Some("port")),
        ("198.51.100.1:40000", None),
        ("198.51.100.2:40000", Some("any port")),
        ("[2001:db8::3]:40000", Some("tcp")),
        ("198.51.100.3:5060", None),
    ] {
        let source = source.parse::<SocketAddr>().unwrap();
        let of = |proof| plan.trunk_of(source, proof);
        assert_eq!(of(SourceProof::Handshake), trunk.map(Caller::Trunk), "{source}");
        assert_eq!(of(SourceProof::Datagram), trunk.map(Caller::Address), "{source}: it can be forged");
    }
    assert_eq!(plan.probed().len(), 4);
}

/// RFC 5922: the name is proved, the address is not asked.
#[test]
fn a_trunk_that_names_a_certificate_is_known_by_it_and_by_no_address() {
    let certified = |name: &str, target| Route {
        certificates: vec!["SIP.Carrier.example".into()],
        ..route(name, "00*", &[target])
    };
    let plan = plan(vec![
        certified("b", "198.51.100.1:5061;transport=tls"),
        certified("a", "gw.carrier.example;transport=tls"),
        route("other", "4*", &["198.51.100.2"]),
    ]);
    let of = |source: &str, names: &[&str]| {
        let names: Vec<Box<str>> = names.iter().map(|&name| name.into()).collect();
        plan.trunk_of(source.parse().unwrap(), SourceProof::Certificate(&names)).map(|caller| match caller {
            Caller::Trunk(name) => name.to_owned(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(of("203.0.113.9:40000", &["x.example", "sip.carrier.example"]).as_deref(), Some("a"));
    assert_eq!(of("203.0.113.9:40000", &["carrier.example"]), None, "another name");
    assert_eq!(of("198.51.100.1:5061", &[]), None, "its address without its certificate");
    assert_eq!(
        of("198.51.100.2:5061", &["x.example"]).as_deref(),
        Some("other"),
        "a route without certificates"
    );
    assert_eq!(plan.trunk_of("198.51.100.1:5061".parse().unwrap(), SourceProof::Datagram), None);
    let settings = PlanSettings::default();
    for wrong in ["*.carrier.example", "", "192.0.2.1", "sip:carrier.example"] {
        let route = Route { certificates: vec![wrong.into()], ..route("r", "00*", &["gw.example"]) };
        let error = Plan::new(&settings, vec![route]).unwrap_err().to_string();
        assert!(error.contains("expected the name of a host or domain"), "{error}");
    }
}

/// A UDP source address can be forged, and toll fraud needs no answer but the call itself.
#[test]
fn a_trunk_that_is_only_an_address_reaches_accounts_and_no_other_system() {
    let mut named = route("named", "8*", &["198.51.100.9:5080"]);
    named.by_address = true;
    let plan = plan(vec![
        route("out", "00*", &["198.51.100.1:5080"]),
        route("did", "+4930123", &["account:bob@example.com"]),
        Route { open: true, ..route("open", "7*", &["198.51.100.2"]) },
        named,
    ]);
    let trunk = plan.trunk_of("198.51.100.1:5080".parse().unwrap(), SourceProof::Datagram).unwrap();
    let word = |caller, uri| word(&plan, caller, uri);
    assert_eq!(word(trunk, "bob@example.com"), "bob@example.com");
    assert_eq!(word(trunk, "+4930123@192.0.2.1"), "bob@example.com");
    assert_eq!(word(trunk, "77@example.com"), "open 77");
    assert_eq!(word(trunk, "001900@example.com"), "001900@example.com", "an account there is not");
    assert_eq!(word(trunk, "x@elsewhere.test"), "403");
    assert_eq!(word(Caller::Stranger, "+4930123@192.0.2.1"), "+4930123@example.com", "it has no such number");
    let proved = plan.trunk_of("198.51.100.1:5080".parse().unwrap(), SourceProof::Handshake).unwrap();
    assert_eq!(word(proved, "001900@example.com"), "out 001900");
    // The operator has said that there an address is proof enough.
    let flagged = plan.trunk_of("198.51.100.9:5080".parse().unwrap(), SourceProof::Datagram).unwrap();
    assert_eq!(word(flagged, "001900@example.com"), "out 001900");
}

#[test]
fn a_route_denies_destinations_before_and_after_its_rewriting() {
    let mut out = route("out", "0*", &["192.0.2.9"]);
    (out.strip, out.prefix) = (1, "+".into());
    out.deny = vec!["+882*".into(), "01900*".into()];
    let plan = plan(vec![out, route("other way", "*", &["192.0.2.10"])]);
    for (user, expected) in [("08821", "403"), ("0-882-1", "403"), ("01900555", "403"), ("0491", "out +491")]
    {
        assert_eq!(word(&plan, ALICE, &format!("{user}@example.com")), expected, "{user}");
    }
    let mut wrong = route("wrong", "1*", &["192.0.2.9"]);
    wrong.deny = vec!["~(".into()];
    let error = Plan::new(&PlanSettings::default(), vec![wrong]).unwrap_err().to_string();
    assert!(error.starts_with("route wrong: deny "), "{error}");
}

#[test]
fn a_route_has_a_rate_of_its_own() {
    let mut slow = route("slow", "1*", &["192.0.2.9"]);
    slow.max_rate = Some(2);
    let plan = plan(vec![slow, route("any", "2*", &["192.0.2.9"])]);
    let now = stdx::Instant::from_unix_seconds(1_700_000_000);
    let taken = |route, at| (0..9).filter(|_| plan.takes_call(route, at)).count();
    assert_eq!((taken("slow", now), taken("any", now)), (2, 9));
    assert_eq!(taken("slow", now + std::time::Duration::from_secs(1)), 2);
}

#[test]
fn wrong_routes_are_named() {
    let settings = PlanSettings::default();
    for (routes, problem) in [
        (route("r", "~(", &["192.0.2.1"]), "route r: "),
        (route("r", "", &["192.0.2.1"]), "route r: expected a number"),
        (route("r", "*", &[]), "route r: expected 1 to 32 targets"),
        (
            route("r", "*", &["account:a@b", "192.0.2.1"]),
            "route r: expected an account to be the only target",
        ),
    ] {
        let error = Plan::new(&settings, vec![routes]).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn targets_are_read_and_written() {
    for text in [
        "gw.example.net",
        "gw.example.net:5080",
        "192.0.2.1:5060;transport=tcp",
        "[2001:db8::1]:5061;transport=tls",
        "[2001:db8::1]",
        "account:bob@example.com",
    ] {
        assert_eq!(text.parse::<RouteTarget>().unwrap().to_string(), text);
    }
    assert_eq!(
        "sip:GW.example.net;transport=UDP".parse::<Target>().unwrap().to_string(),
        "gw.example.net;transport=udp"
    );
    for text in [
        "",
        "host:0",
        "host:99999",
        "a b",
        "[::1",
        "[x]:1",
        "h;transport=x",
        "account:bob",
        "account:@b",
        "u@h",
    ] {
        assert!(text.parse::<RouteTarget>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn the_index_chooses_as_trying_each_route_would(
        patterns in prop::collection::vec(
            ("[12]{1,3}\\*?|\\*|[ab]{1,2}|[ab]\\*|~[12]+", 0..3u16, any::<bool>()), 0..8),
        user in "\\+?[12]{1,4}|[ab]{1,2}",
        stranger: bool,
    ) {
        let routes: Vec<_> = patterns.iter().enumerate().map(|(n, (pattern, priority, open))| {
            let mut route = route(&format!("r{n}"), pattern, &["192.0.2.9"]);
            (route.priority, route.open) = (*priority, *open);
            route
        }).collect();
        let caller = if stranger { Caller::Stranger } else { ALICE };
        let whole = plan(routes.clone());
        // Best first, as the plan lists them; each alone.
        let best = whole.routes().find(|route| {
            let alone = plan(vec![(*route).clone()]);
            matches!(ask(&alone, caller, &format!("{user}@example.com")), Decision::Targets { .. })
        });
        let expected = best.map_or(format!("{user}@example.com"), |route| format!("{} {user}", route.name));
        prop_assert_eq!(word(&whole, caller, &format!("{user}@example.com")), expected);
    }

    #[test]
    fn any_request_has_a_decision(user in "\\PC{0,30}", host in "\\PC{0,30}", port: Option<u16>) {
        let plan = plan(vec![route("r", "+49*", &["192.0.2.9"]), route("g", "a?*", &["192.0.2.9"])]);
        let request = PlanRequest { user: &user, host: &host, port, caller: Caller::Stranger };
        let _ = plan.decide(&request, 0, &DownTargets::default());
    }

    #[test]
    fn any_text_is_a_target_or_an_error(text in "\\PC{0,30}") {
        if let Ok(target) = text.parse::<RouteTarget>() {
            prop_assert_eq!(target.to_string().parse(), Ok(target));
        }
    }
}

#[test]
fn a_domain_is_ours_in_each_of_its_spellings() {
    let plan = plan(Vec::new());
    for host in ["bücher.example", "xn--bcher-kva.example", "XN--BCHER-KVA.example"] {
        assert_eq!(plan.domain_of(host, None), Some("bücher.example"), "{host}");
        let decision = ask(&plan, Caller::Stranger, &format!("alice@{host}"));
        assert_eq!(
            decision,
            Decision::Local { user: "alice".into(), domain: "bücher.example".into() },
            "{host}"
        );
    }
    assert_eq!(plan.domain_of("xn--other.example", None), None);
}
