//! The routing plan: which domains are ours, and where a call goes.
//!
//! A request's host decides first. One that means this server (a listening address, or a name of it) stands
//! for the default domain. In a domain we serve, routes are asked first and accounts get the rest: an operator
//! who writes a route for a user or number means it, and a plan that asked for accounts first would need the
//! store for each call. Among routes the lowest priority number wins; among equals the more particular
//! pattern (exact, longest prefix, regular expression, glob), then the name. Other domains are reached only by
//! routes that name them: without one it is 404, for strangers 403, and nothing is ever relayed.
//!
//! Toll fraud: a route serves accounts and trunks that are proved. Strangers take only routes marked `open`; for them the
//! others do not exist. A trunk is proved by a certificate that its route names, or, where it names none, by an address that
//! a handshake has confirmed. One known by a UDP source address alone reaches accounts and no other system. Destinations
//! that a route denies, and calls beyond its rate, are refused, and no other route is tried for them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use stdx::Instant;
use stdx::rng::SplitMix64;

use crate::allowance::{Denied, RateMeter};
use crate::limits;
use crate::pattern::{self, Pattern};
use crate::target::{DownTargets, Member, RouteTarget, Target};

/// The domains and routes of this server.
#[derive(Clone, Debug, Default)]
pub struct PlanSettings {
    /// The domains whose accounts are ours.
    pub domains: Vec<Box<str>>,
    /// Other spellings of the domains, each with the domain that it means: A-labels (RFC 5890).
    pub spellings: Vec<(Box<str>, Box<str>)>,
    /// The domain of requests to our bare address; the first of `domains` when not given.
    pub default_domain: Option<Box<str>>,
    /// Names of this server that are no domains.
    pub names: Vec<Box<str>>,
    /// The addresses we are reached at. Expanded: no `0.0.0.0`.
    pub local: Vec<SocketAddr>,
    /// The routes and domains are at other nodes, and not known yet: no request can be decided.
    pub is_awaited: bool,
}

/// One route, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The operator's name for it, in logs and metrics.
    pub name: Box<str>,
    /// Lower goes first.
    pub priority: u16,
    /// A number (`+49301234`), a prefix (`+49*`), a user, a glob (`desk-?`, `*`) or a regular expression
    /// for the whole user part (`~[2-9]\d{3}`).
    pub pattern: Box<str>,
    /// A glob for the domain, which need not be served by us. `None`: any that is.
    pub domain: Option<Box<str>>,
    /// The targets; `Member` has their order.
    pub targets: Vec<Member>,
    /// Digits (or characters) to take from the front, after a `+`.
    pub strip: u8,
    /// The digits to put in front then.
    pub prefix: Box<str>,
    /// True if strangers may take it.
    pub open: bool,
    /// True if its targets are watched with OPTIONS.
    pub probe: bool,
    /// A UDP source address alone proves its targets.
    pub by_address: bool,
    /// Names of which its systems show a certificate. Where there are any, an address proves nothing.
    pub certificates: Vec<Box<str>>,
    /// New calls a second, in one process; `None`: any.
    pub max_rate: Option<u32>,
    /// Numbers and users, after the rewriting and before it, that it does not carry; patterns as `pattern` is one.
    pub deny: Vec<Box<str>>,
}

/// The origin of a call, as far as it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller<'a> {
    /// An address of record that has proved itself.
    Account(&'a str),
    /// As `Plan::trunk_of` named it, and proved: it may call whatever accounts may.
    Trunk(&'a str),
    /// As `Plan::trunk_of` named it, by nothing but a source address that can be forged: it reaches accounts, also by
    /// routes that lead to one, and no other system.
    Address(&'a str),
    /// Neither an account nor a configured peer.
    Stranger,
}

/// The identity that a transport proves of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceProof<'a> {
    /// A datagram: nothing.
    Datagram,
    /// A handshake went there and back: the sender gets what is sent there.
    Handshake,
    /// As `Handshake`, and a verified certificate has these names, in lower case (RFC 5922 §7.1).
    Certificate(&'a [Box<str>]),
}

/// The Request-URI of a call, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRequest<'a> {
    /// Unescaped; empty when there is none.
    pub user: &'a str,
    /// With or without the brackets of an IPv6 address, in any case.
    pub host: &'a str,
    /// The port of the Request-URI; `None` where it has none.
    pub port: Option<u16>,
    /// The sender, as far as it is proved.
    pub caller: Caller<'a>,
}

/// The destinations of a call, or the reason of its refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An address of ours, whether or not there is such an account.
    Local {
        /// The user part, unescaped.
        user: Box<str>,
        /// The served domain, in its canonical spelling.
        domain: Box<str>,
    },
    /// Try them in this order, with this user part.
    Targets {
        /// The name of the route.
        route: Box<str>,
        /// The user part after the route's rewriting.
        user: Box<str>,
        /// The lowest priority first.
        groups: Vec<TargetGroup>,
    },
    /// The request goes nowhere.
    Refuse {
        /// The status of the response.
        code: u16,
        /// Its reason phrase.
        reason: &'static str,
    },
}

/// Targets of one priority, in the order to try them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// As in `Member::priority`.
    pub priority: u16,
    /// The first is tried first.
    pub targets: Vec<Target>,
}

/// A route that cannot be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The name of the route.
    pub route: Box<str>,
    /// A sentence for the operator.
    pub problem: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}: {}", self.route, self.problem)
    }
}

impl std::error::Error for PlanError {}

/// Read-only once made; a change of data makes another.
#[derive(Debug, Default)]
pub struct Plan {
    domains: HashSet<Box<str>>,
    spellings: HashMap<Box<str>, Box<str>>,
    default_domain: Option<Box<str>>,
    names: HashSet<Box<str>>,
    local: Vec<SocketAddr>,
    is_awaited: bool,
    /// Best first. The indices below point here.
    routes: Vec<CompiledRoute>,
    numbers: HashMap<Box<str>, Vec<usize>>,
    prefixes: HashMap<Box<str>, Vec<usize>>,
    users: HashMap<Box<str>, Vec<usize>>,
    patterns: Vec<usize>,
    /// Routes with targets at literal addresses.
    trunks: HashMap<IpAddr, Vec<usize>>,
    /// The best route that names a certificate.
    certificates: HashMap<Box<str>, usize>,
    /// The meters of routes with a rate, by their name.
    meters: HashMap<Box<str>, RateMeter>,
}

#[derive(Debug)]
struct CompiledRoute {
    route: Route,
    pattern: Pattern,
    denied: Denied,
}

impl Plan {
    /// # Errors
    /// Names the first invalid route and the expected value.
    pub fn new(settings: &PlanSettings, routes: Vec<Route>) -> Result<Self, PlanError> {
        let lower = |texts: &[Box<str>]| texts.iter().map(|text| text.to_ascii_lowercase().into()).collect();
        let mut plan = Plan {
            domains: lower(&settings.domains),
            spellings: settings.spellings.iter().cloned().collect(),
            default_domain: settings.default_domain.as_ref().or(settings.domains.first()).cloned(),
            names: lower(&settings.names),
            local: settings.local.clone(),
            is_awaited: settings.is_awaited,
            ..Plan::default()
        };
        if let Some(domain) = &mut plan.default_domain {
            domain.make_ascii_lowercase();
        }
        plan.routes = routes.into_iter().map(compile).collect::<Result<_, _>>()?;
        plan.routes.sort_by_cached_key(|compiled| {
            (compiled.route.priority, compiled.pattern.rank(), compiled.route.name.clone())
        });
        plan.index()?;
        Ok(plan)
    }

    /// `random` chooses among weights; the same number makes the same choice.
    pub fn decide(&self, request: &PlanRequest<'_>, random: u64, down: &DownTargets) -> Decision {
        let host = request.host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let domain = match self.domain_of(&host, request.port) {
            Some(domain) => domain,
            None if self.is_us(&host, request.port) => {
                return Decision::Refuse { code: 404, reason: "No domain here" };
            }
            None => &host,
        };
        let served = self.domains.contains(domain);
        match self.route(request, domain, served) {
            Some(found) if found.denies(request.user) => Decision::Refuse { code: 403, reason: DENIED },
            Some(found) => take(&found.route, request.user, random, down),
            None if served && request.user.is_empty() => Decision::Refuse { code: 404, reason: "Not Found" },
            None if served => Decision::Local { user: request.user.into(), domain: domain.into() },
            None if matches!(request.caller, Caller::Stranger | Caller::Address(_)) => {
                Decision::Refuse { code: 403, reason: "Relaying denied" }
            }
            None => Decision::Refuse { code: 404, reason: "Domain not served here" },
        }
    }

    /// The domain a host stands for, when it is ours.
    pub fn domain_of<'a>(&'a self, host: &str, port: Option<u16>) -> Option<&'a str> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let name = self.spellings.get(&*host).map_or(&*host, |domain| &**domain);
        match self.domains.get(name) {
            Some(domain) => Some(domain),
            None if self.is_us(&host, port) => self.default_domain.as_deref(),
            None => None,
        }
    }

    /// True if the routes are not known yet: requests are to be answered 503.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Where an address without a host is.
    pub fn default_domain(&self) -> Option<&str> {
        self.default_domain.as_deref()
    }

    /// True if it is one of our own listening addresses.
    pub fn is_own(&self, source: SocketAddr) -> bool {
        self.local.contains(&source)
    }

    /// The route whose system this source is: by a certificate that the route names, or as its target at a literal address.
    /// It is [`Caller::Trunk`] when the source is proved, or the operator takes an address for a proof, else
    /// [`Caller::Address`].
    pub fn trunk_of(&self, source: SocketAddr, proof: SourceProof<'_>) -> Option<Caller<'_>> {
        if let SourceProof::Certificate(names) = proof
            && let Some(index) = names.iter().filter_map(|name| self.certificates.get(name)).min()
        {
            return Some(Caller::Trunk(&self.routes[*index].route.name));
        }
        let routes =
            self.trunks.get(&source.ip().to_canonical())?.iter().map(|index| &self.routes[*index].route);
        let from_there = routes.filter(|route| peers(route).any(|target| target.sends_from(source)));
        let callers = from_there.map(|route| match proof {
            SourceProof::Datagram if !route.by_address => Caller::Address(&route.name),
            _ => Caller::Trunk(&route.name),
        });
        // The route that trusts its system most, if several lead to it.
        callers.min_by_key(|caller| matches!(caller, Caller::Address(_)))
    }

    /// True if one more call may go by that route now. Asked once for each call that a decision sends there.
    pub fn takes_call(&self, route: &str, now: Instant) -> bool {
        self.meters.get(route).is_none_or(|meter| meter.take(now))
    }

    /// Everything that probes should go to, each once.
    pub fn probed(&self) -> Vec<Target> {
        let watched = self.routes.iter().filter(|compiled| compiled.route.probe);
        let mut targets: Vec<_> = watched.flat_map(|compiled| peers(&compiled.route)).cloned().collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// The routes in the order in which they were given.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|compiled| &compiled.route)
    }

    fn index(&mut self) -> Result<(), PlanError> {
        for (index, CompiledRoute { route, pattern, .. }) in self.routes.iter().enumerate() {
            let wrong = |problem: &str| PlanError { route: route.name.clone(), problem: problem.into() };
            match pattern {
                Pattern::Number(number) => self.numbers.entry(number.clone()).or_default().push(index),
                Pattern::Prefix(prefix) => self.prefixes.entry(prefix.clone()).or_default().push(index),
                Pattern::User(user) => self.users.entry(user.clone()).or_default().push(index),
                Pattern::Regex(_) | Pattern::Glob(_) => self.patterns.push(index),
            }
            if let Some(calls) = route.max_rate {
                self.meters.insert(route.name.clone(), RateMeter::new(calls));
            }
            if index >= limits::ROUTES || self.patterns.len() > limits::PATTERN_ROUTES {
                return Err(wrong("expected fewer routes"));
            }
            for name in &route.certificates {
                self.certificates.entry(name.clone()).or_insert(index);
            }
            let by_address = peers(route).filter(|_| route.certificates.is_empty());
            for ip in by_address.filter_map(Target::ip) {
                self.trunks.entry(ip.to_canonical()).or_default().push(index);
            }
        }
        Ok(())
    }

    fn is_us(&self, host: &str, port: Option<u16>) -> bool {
        let at = |local: &SocketAddr, ip: IpAddr| {
            local.ip().to_canonical() == ip.to_canonical() && port.is_none_or(|port| port == local.port())
        };
        self.names.contains(host)
            || host.parse().is_ok_and(|ip: IpAddr| self.local.iter().any(|local| at(local, ip)))
    }

    /// The best route this caller may take.
    fn route(&self, request: &PlanRequest<'_>, domain: &str, served: bool) -> Option<&CompiledRoute> {
        if request.user.len() > limits::USER_BYTES {
            return None;
        }
        let may = |route: &Route| {
            let is_open = match request.caller {
                Caller::Account(_) | Caller::Trunk(_) => true,
                Caller::Address(_) => route.open || peers(route).next().is_none(),
                Caller::Stranger => route.open,
            };
            is_open && route.domain.as_ref().map_or(served, |glob| pattern::glob_matches(glob, domain))
        };
        let indexed = self.indexed(request.user);
        let matching =
            self.patterns.iter().filter(|index| self.routes[**index].pattern.matches(request.user));
        // Each list is in order, so the first that may be taken is its best.
        let best = indexed
            .iter()
            .filter_map(|list| list.iter().find(|index| may(&self.routes[**index].route)))
            .chain(matching.filter(|index| may(&self.routes[**index].route)).take(1))
            .min()?;
        Some(&self.routes[*best])
    }

    /// Routes for exactly this user or number, and for each prefix of it.
    fn indexed(&self, user: &str) -> Vec<&Vec<usize>> {
        let mut lists: Vec<_> = self.users.get(user).into_iter().collect();
        if let Some(digits) = pattern::digits(user) {
            lists.extend(self.numbers.get(&*digits));
            if !self.prefixes.is_empty() {
                lists.extend((1..=digits.len()).filter_map(|length| self.prefixes.get(&digits[..length])));
            }
        }
        lists
    }
}

fn compile(mut route: Route) -> Result<CompiledRoute, PlanError> {
    if let Some(domain) = &mut route.domain {
        domain.make_ascii_lowercase();
    }
    route.certificates.iter_mut().for_each(|name| name.make_ascii_lowercase());
    let wrong = |problem: String| PlanError { route: route.name.clone(), problem };
    if route.targets.is_empty() || route.targets.len() > limits::TARGETS_PER_ROUTE {
        return Err(wrong(format!("expected 1 to {} targets", limits::TARGETS_PER_ROUTE)));
    }
    let accounts = route.targets.iter().any(|member| matches!(member.to, RouteTarget::Account { .. }));
    if accounts && route.targets.len() > 1 {
        return Err(wrong("expected an account to be the only target".into()));
    }
    if let Some(name) = route.certificates.iter().find(|name| !is_domain(name)) {
        return Err(wrong(format!(
            "certificate {name:?}: expected the name of a host or domain, without wildcards"
        )));
    }
    let pattern = Pattern::parse(&route.pattern).map_err(wrong)?;
    let denied = Denied::new(&route.deny).map_err(wrong)?;
    Ok(CompiledRoute { route, pattern, denied })
}

/// RFC 5922 §7.2: no wildcard matches.
fn is_domain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    !name.is_empty() && name.chars().all(is_plain) && name.parse::<IpAddr>().is_err()
}

/// The reason of a refusal, by which callers and counters know it.
pub const DENIED: &str = "Destination Denied";

impl CompiledRoute {
    fn denies(&self, user: &str) -> bool {
        self.denied.covers(user) || self.denied.covers(&rewrite(&self.route, user))
    }
}

fn peers(route: &Route) -> impl Iterator<Item = &Target> {
    route.targets.iter().filter_map(|member| match &member.to {
        RouteTarget::Peer(target) => Some(target),
        RouteTarget::Account { .. } => None,
    })
}

fn take(route: &Route, user: &str, random: u64, down: &DownTargets) -> Decision {
    if let Some(RouteTarget::Account { user, domain }) = route.targets.first().map(|member| &member.to) {
        return Decision::Local { user: user.clone(), domain: domain.clone() };
    }
    let user = rewrite(route, user);
    if user.is_empty() && !(route.strip == 0 && route.prefix.is_empty()) {
        return Decision::Refuse { code: 404, reason: "Number too short" };
    }
    let mut members: Vec<&Member> = route.targets.iter().filter(|member| is_up(member, down)).collect();
    if members.is_empty() {
        // All are down. A probe may be wrong where a call gets through, and a refusal would be no better: try all.
        members = route.targets.iter().collect();
    }
    members.sort_by_key(|member| member.priority);
    let mut numbers = SplitMix64::new(random);
    let groups =
        members.chunk_by(|a, b| a.priority == b.priority).map(|group| order(group, &mut numbers)).collect();
    Decision::Targets { route: route.name.clone(), user, groups }
}

fn is_up(member: &Member, down: &DownTargets) -> bool {
    match &member.to {
        RouteTarget::Peer(target) => !down.contains(target),
        RouteTarget::Account { .. } => true,
    }
}

/// Weighted order, as RFC 2782 draws it: each next one by its share of the weights that are left.
fn order(group: &[&Member], numbers: &mut SplitMix64) -> TargetGroup {
    let priority = group.first().map_or(0, |member| member.priority);
    let mut rest = group.to_vec();
    let mut targets = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let total = rest.iter().map(|member| u64::from(member.weight)).sum();
        let mut ticket = numbers.below(total);
        let drawn = rest.iter().position(|member| {
            let weight = u64::from(member.weight);
            let wins = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            wins
        });
        // Only weights of zero are left: any of them.
        let index = drawn.unwrap_or_else(|| numbers.below(rest.len() as u64) as usize);
        if let RouteTarget::Peer(target) = &rest.swap_remove(index).to {
            targets.push(target.clone());
        }
    }
    TargetGroup { priority, targets }
}

fn rewrite(route: &Route, user: &str) -> Box<str> {
    if route.strip == 0 && route.prefix.is_empty() {
        return user.into();
    }
    let bare = user.strip_prefix('+').unwrap_or(user);
    let rest: String = bare.chars().skip(route.strip.into()).collect();
    // A plus stays in front of a number nothing was taken from, unless the prefix brings its own.
    let plus =
        if route.strip == 0 && bare.len() < user.len() && !route.prefix.starts_with('+') { "+" } else { "" };
    format!("{plus}{}{rest}", route.prefix).into()
}
