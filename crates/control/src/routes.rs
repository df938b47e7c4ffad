//! Routes of the database as the plan takes them, their checks before they are written, and their texts in commands.

use call::{Member, Plan, PlanSettings, RouteTarget};
use store::{Pattern, Route};

/// Converts a route of the database to one of the plan. The error says what was expected.
pub fn to_plan(route: &Route) -> Result<call::Route, String> {
    let member = |target: &store::RouteTarget| {
        let to: RouteTarget =
            target.uri.parse().map_err(|error| format!("target {}: {error}", target.uri))?;
        Ok(Member { to, priority: target.priority, weight: target.weight })
    };
    let (pattern, domain) = match &route.pattern {
        Pattern::Number(number) => (number.to_string(), None),
        Pattern::Prefix(prefix) => (format!("{prefix}*"), None),
        Pattern::User(user) => (user.to_string(), None),
        Pattern::Regex(regex) => (format!("~{regex}"), None),
        Pattern::Domain(domain) => ("*".to_owned(), Some(domain.clone())),
    };
    Ok(call::Route {
        name: route.name.clone(),
        priority: 0,
        pattern: pattern.into(),
        domain,
        targets: route.targets.iter().map(member).collect::<Result<_, String>>()?,
        strip: route.strip,
        prefix: route.prefix.clone(),
        open: route.open,
        probe: route.probe,
        by_address: route.policy.by_address,
        certificates: route.policy.certificates.clone(),
        max_rate: route.policy.max_rate,
        deny: route.policy.deny.clone(),
    })
}

/// The reason why a route with `--certificate` cannot accept any call. `None`: there is no such reason, or the route names no
/// certificate. `missing` is what the configuration lacks, and a remedy (`config::Config::unverifiable_certificates`).
pub fn unverifiable(route: &Route, missing: Option<&str>) -> Option<String> {
    let missing = missing.filter(|_| !route.policy.certificates.is_empty())?;
    Some(format!("the route {} accepts no calls: {missing}", route.name))
}

/// Checks that the plan would take the route, before it is written.
pub fn check(route: &Route) -> Result<(), String> {
    let digits = |text: &str| {
        let digits = text.strip_prefix('+').unwrap_or(text);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match &route.pattern {
        Pattern::Number(number) if number.is_empty() || !digits(number) => {
            return Err(format!(
                "route {}: number {number:?}: expected digits, with or without +",
                route.name
            ));
        }
        Pattern::Prefix(prefix) if !digits(prefix) => {
            return Err(format!(
                "route {}: prefix {prefix:?}: expected digits, with or without +",
                route.name
            ));
        }
        _ => {}
    }
    let plan_route = to_plan(route).map_err(|problem| format!("route {}: {problem}", route.name))?;
    Plan::new(&PlanSettings::default(), vec![plan_route]).map(drop).map_err(|error| error.to_string())
}

/// Denied destinations of an account. No regular expressions: they would be compiled for each of its calls.
pub fn check_deny(deny: &[Box<str>]) -> Result<(), String> {
    if let Some(regex) = deny.iter().find(|pattern| pattern.starts_with('~')) {
        return Err(format!("deny {regex:?}: expected a number, a prefix or a glob"));
    }
    call::Denied::new(deny).map(drop)
}

/// `number:`, `prefix:`, `user:`, `regex:` or `domain:` and a value.
pub fn parse_pattern(text: &str) -> Option<Pattern> {
    let (kind, value) = text.split_once(':')?;
    Pattern::from_parts(kind, value)
}

/// `URI[,weight=N][,priority=N]`. The error says what was expected.
pub fn parse_target(text: &str) -> Result<store::RouteTarget, String> {
    let mut parts = text.split(',');
    let uri = parts.next().unwrap_or_default();
    // A bare word would be taken for the name of a host, which the operator hardly meant.
    if !uri.starts_with("sip:") && !uri.starts_with("account:") {
        let expected =
            "sip:HOST, with :PORT and ;transport=udp, tcp or tls where needed, or account:user@domain";
        return Err(format!("target {uri:?}: expected {expected}"));
    }
    uri.parse::<RouteTarget>().map_err(|error| format!("target {uri:?}: {error}"))?;
    let mut target = store::RouteTarget { uri: uri.into(), weight: 1, priority: 1 };
    for part in parts {
        let number = |value: &str| value.parse::<u16>().map_err(|_| format!("{part:?}: expected 0 to 65535"));
        match part.split_once('=') {
            Some(("weight", value)) => target.weight = number(value)?,
            Some(("priority", value)) => target.priority = number(value)?,
            _ => return Err(format!("{part:?} behind target {uri}: expected weight=N or priority=N")),
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use call::{Caller, Decision, DownTargets, PlanRequest};

    use super::*;

    fn route(pattern: &str, target: &str) -> Route {
        Route {
            id: 0,
            name: "r".into(),
            pattern: parse_pattern(pattern).unwrap(),
            targets: vec![parse_target(target).unwrap()],
            open: false,
            probe: false,
            strip: 0,
            prefix: "".into(),
            policy: store::types::RoutePolicy::default(),
            created_at: stdx::Instant::default(),
        }
    }

    #[test]
    fn patterns_reach_the_plan_with_their_meaning() {
        for (pattern, user, host, taken) in [
            ("number:1234", "1234", "here.test", true),
            ("number:1234", "12345", "here.test", false),
            ("prefix:+49", "+4930", "here.test", true),
            ("prefix:", "alice", "here.test", true),
            ("user:bob*", "bobby", "here.test", true),
            (r"regex:1\d\d", "112", "here.test", true),
            (r"regex:^1\d\d$", "1120", "here.test", false),
            ("domain:example.net", "anyone", "example.net", true),
            ("domain:example.net", "anyone", "example.org", false),
        ] {
            let route = route(pattern, "sip:192.0.2.7:5080");
            check(&route).unwrap();
            let settings = PlanSettings { domains: vec!["here.test".into()], ..PlanSettings::default() };
            let plan = Plan::new(&settings, vec![to_plan(&route).unwrap()]).unwrap();
            let caller = Caller::Account("a@here.test");
            let request = PlanRequest { user, host, port: None, caller };
            let decision = plan.decide(&request, 0, &DownTargets::default());
            assert_eq!(matches!(decision, Decision::Targets { .. }), taken, "{pattern} {user}@{host}");
        }
    }

    #[test]
    fn invalid_patterns_and_targets_are_refused_with_the_expected_form() {
        for (pattern, problem) in [
            ("number:12a", "expected digits"),
            ("prefix:x", "expected digits"),
            ("regex:(", "regex parse error"),
        ] {
            let error = check(&route(pattern, "sip:gw.test")).unwrap_err();
            assert!(error.starts_with("route r: ") && error.contains(problem), "{error}");
        }
        assert!(parse_pattern("1234").is_none() && parse_pattern("colour:red").is_none());
        for (target, problem) in [
            ("sip:gw.test:0", "expected a port, 1 to 65535"),
            ("sip:gw.test,weight=x", "expected 0 to 65535"),
            ("sip:gw.test,speed=1", "expected weight=N or priority=N"),
            ("account:bob", "expected an account, account:user@domain"),
            ("gw.test", "expected sip:HOST, with :PORT"),
            ("nonsense", "or account:user@domain"),
            ("http://gw.test", "expected sip:HOST"),
            ("", "expected sip:HOST"),
            ("sip:", "target \"sip:\""),
            ("sip:bob@gw.test", "target \"sip:bob@gw.test\""),
        ] {
            let error = parse_target(target).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn targets_carry_weight_and_priority() {
        let target = parse_target("sip:gw.test;transport=tcp,weight=3,priority=2").unwrap();
        assert_eq!((&*target.uri, target.weight, target.priority), ("sip:gw.test;transport=tcp", 3, 2));
    }
}
