//! Routes, and the way that a call would take: to an application that answers the number, or by the plan.

use axum::http::StatusCode;
use call::{Caller, Decision, DownTargets, Plan, PlanRequest, PlanSettings};
use control::{Ask, Change, Listing, Request, Response, routes as texts};
use serde_json::{Value, json};
use store::types::RoutePolicy;
use store::{Route, StoreError};
use voice::numbers::AnsweredNumber;

use super::applications::on_thread;
use super::{Answer, Context};
use crate::fault::Fault;
use crate::role::Role;

async fn all(context: &Context<'_>) -> Result<Vec<Route>, Fault> {
    match context.listing(Ask::Routes).await? {
        Listing::Routes(routes) => Ok(routes),
        _ => Err(Fault::unexpected()),
    }
}

async fn status(context: &Context<'_>) -> Result<Box<control::Status>, Fault> {
    match context.state.node.ask_one(Request::Status).await? {
        Response::Status(status) => Ok(status),
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let routes = all(context).await?;
    let status = status(context).await?;
    Ok(Answer::Json(json!({ "routes": routes, "targets": status.node.targets })))
}

pub(super) async fn add(context: &Context<'_>) -> Result<Answer, Fault> {
    let values = &context.values;
    let name = values.text("name");
    let pattern = texts::parse_pattern(values.text("pattern")).ok_or_else(|| {
        Fault::invalid(
            "pattern: expected number:, prefix:, user:, regex: or domain: and a value, as prefix:+49",
        )
    })?;
    let targets =
        values.texts("targets").iter().map(|text| texts::parse_target(text)).collect::<Result<_, _>>();
    let route = Route {
        id: 0,
        name: name.into(),
        pattern,
        targets: targets.map_err(Fault::invalid)?,
        open: values.flag("open"),
        probe: values.flag("probe"),
        strip: values.number("strip").and_then(|strip| u8::try_from(strip).ok()).unwrap_or(0),
        prefix: values.text("prefix").into(),
        policy: RoutePolicy {
            trusted: values.flag("trusted"),
            by_address: values.flag("trust_udp_address"),
            certificates: Vec::new(),
            max_rate: values.small("max_rate"),
            deny: values.texts("deny").iter().map(|text| text.as_str().into()).collect(),
        },
        // The node writes the time.
        created_at: stdx::Instant::default(),
    };
    context.change(Change::AddRoute { route, replace: values.flag("replace") }, name).await
}

pub(super) async fn remove(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.variable();
    context.change(Change::RemoveRoute { name: name.into() }, name).await
}

pub(super) async fn test(context: &Context<'_>) -> Result<Answer, Fault> {
    let routes = all(context).await?;
    let status = status(context).await?;
    let domains = status.node.domains.clone();
    let way = Way::new(&routes, domains, context.values.text("to")).map_err(Fault::invalid)?;
    let (way, answered) = answered(context, way).await?;
    if let Some(answered) = answered {
        return Ok(Answer::Json(application(&answered, context.user.role)));
    }
    let decision = way.decide();
    let mut answer = describe(&decision);
    if let Decision::Local { user, domain } = &decision {
        let address = context.address(&format!("{user}@{domain}"))?;
        let listing = context.listing(Ask::Account { address }).await?;
        let Listing::Account(account) = listing else { return Err(Fault::unexpected()) };
        answer["account"] = json!(account.map(|account| account.address.to_string()));
    }
    let is_down =
        |target: &str| status.node.targets.iter().any(|known| !known.up && *known.target == *target);
    if let Some(targets) = answer["targets"].as_array_mut() {
        for target in targets {
            let name = target["target"].as_str().unwrap_or_default().to_owned();
            target["down"] = is_down(&name).into();
        }
    }
    Ok(Answer::Json(answer))
}

/// A call of an account that is not made.
struct Way {
    plan: Plan,
    user: String,
    host: String,
}

impl Way {
    /// `to`: a number, a user, or user@host.
    fn new(routes: &[Route], domains: Vec<Box<str>>, to: &str) -> Result<Way, String> {
        let settings = PlanSettings { domains, ..PlanSettings::default() };
        let routes = routes.iter().map(texts::to_plan).collect::<Result<Vec<_>, _>>()?;
        let plan = Plan::new(&settings, routes).map_err(|error| error.to_string())?;
        let to = to.trim().trim_start_matches("sip:");
        let default = settings.domains.first().map(AsRef::as_ref).unwrap_or_default();
        let (user, host) = to.rsplit_once('@').unwrap_or((to, default));
        Ok(Way { plan, user: user.to_owned(), host: host.to_owned() })
    }

    /// The plan's decision, for which applications are asked before.
    fn decide(&self) -> Decision {
        let Way { plan, user, host } = self;
        let request = PlanRequest { user, host, port: None, caller: Caller::Account("") };
        plan.decide(&request, 0, &DownTargets::default())
    }
}

/// The application that answers the call, as the node asks before its plan.
async fn answered(context: &Context<'_>, way: Way) -> Result<(Way, Option<AnsweredNumber>), Fault> {
    let Some(source) = context.state.applications.numbers.clone() else { return Ok((way, None)) };
    let found = on_thread(context, move || {
        let numbers = source.numbers()?;
        let answered = numbers.answered(&way.plan, &way.user, &way.host);
        Ok((way, answered))
    });
    found.await?.map_err(|error: StoreError| Fault::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

/// The URL may have a password in it: readers do not see it.
fn application(answered: &AnsweredNumber, role: Role) -> Value {
    let AnsweredNumber { number, binding, url, account, is_suspended } = answered;
    if *is_suspended {
        return json!({ "kind": "refused", "code": 403, "reason": "Account Suspended" });
    }
    let url = (role >= Role::Operator).then_some(url);
    json!({ "kind": "application", "number": number, "binding": binding, "url": url, "account": account })
}

fn describe(decision: &Decision) -> Value {
    match decision {
        Decision::Local { user, domain } => {
            json!({ "kind": "account", "address": format!("{user}@{domain}") })
        }
        Decision::Targets { route, user, groups } => {
            let targets = groups.iter().flat_map(|group| {
                group
                    .targets
                    .iter()
                    .map(|target| json!({ "priority": group.priority, "target": target.to_string() }))
            });
            json!({ "kind": "route", "route": route, "user": user, "targets": targets.collect::<Vec<_>>() })
        }
        Decision::Refuse { code, reason } => json!({ "kind": "refused", "code": code, "reason": reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, pattern: &str, targets: &[&str]) -> Route {
        Route {
            id: 0,
            name: name.into(),
            pattern: texts::parse_pattern(pattern).unwrap(),
            targets: targets.iter().map(|target| texts::parse_target(target).unwrap()).collect(),
            open: false,
            probe: false,
            strip: 1,
            prefix: "00".into(),
            policy: RoutePolicy::default(),
            created_at: stdx::Instant::default(),
        }
    }

    #[test]
    fn the_way_of_a_number_is_the_plans() {
        let routes = [route("trunk", "prefix:+49", &["sip:192.0.2.7:5060", "sip:192.0.2.8,priority=2"])];
        let way = |to: &str| describe(&Way::new(&routes, vec!["example.test".into()], to).unwrap().decide());
        let trunk = way("+4930");
        assert_eq!((&trunk["kind"], &trunk["route"]), (&json!("route"), &json!("trunk")));
        assert_eq!(trunk["targets"][1]["priority"], 2);
        assert_eq!(trunk["targets"].as_array().unwrap().len(), 2);
        assert_eq!(way("alice"), json!({ "kind": "account", "address": "alice@example.test" }));
        assert_eq!(way("sip:bob@elsewhere.test")["kind"], "refused");
    }
}
