//! Usage: calls, messages, recordings and transcriptions, counted over a time or by period.

use stdx::Instant;
use store::rest::{Kind, Period, Sum, UsageFilter};

use crate::date::{self, DAY, civil, days};
use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{PAGE, choice, date_value, day, version};

/// Category, its row's kind and direction (all when empty), what is counted, and what is added up.
struct Category {
    /// The name in `Category`.
    name: &'static str,
    /// Rows of this kind are added up.
    kind: Kind,
    /// `inbound`, `outbound`, or empty for both.
    direction: &'static str,
    /// The description in the answer.
    about: &'static str,
    /// The unit of `count`.
    count_unit: &'static str,
    /// The unit of `usage`.
    usage_unit: &'static str,
}

const fn category(
    name: &'static str,
    kind: Kind,
    direction: &'static str,
    about: &'static str,
    units: (&'static str, &'static str),
) -> Category {
    Category { name, kind, direction, about, count_unit: units.0, usage_unit: units.1 }
}

const CATEGORIES: &[Category] = &[
    category("calls", Kind::Call, "", "Voice minutes", ("calls", "minutes")),
    category("calls-inbound", Kind::Call, "inbound", "Inbound voice minutes", ("calls", "minutes")),
    category("calls-outbound", Kind::Call, "outbound", "Outbound voice minutes", ("calls", "minutes")),
    category("recordings", Kind::Recording, "", "Recorded minutes", ("recordings", "minutes")),
    category("sms", Kind::Message, "", "Text messages", ("segments", "messages")),
    category("sms-inbound", Kind::Message, "inbound", "Inbound text messages", ("segments", "messages")),
    category("sms-outbound", Kind::Message, "outbound", "Outbound text messages", ("segments", "messages")),
    category("transcriptions", Kind::Transcription, "", "Transcribed minutes", ("transcriptions", "minutes")),
];
/// The names again, since a parameter's values are a constant list.
const NAMES: &[&str] = &[
    "calls",
    "calls-inbound",
    "calls-outbound",
    "recordings",
    "sms",
    "sms-inbound",
    "sms-outbound",
    "transcriptions",
];

const LIST: &[Parameter] = &[
    choice("Category", NAMES),
    day("StartDate"),
    day("EndDate"),
    super::unsupported_flag("IncludeSubaccounts"),
];

/// All have the same parameters and handler; the last word of the path decides about the time.
const fn route(path: &'static str, summary: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary,
        parameters: &[LIST, PAGING],
        answer: Shape::List("usage_records", example),
        handler: list,
    }
}

pub(crate) const ROUTES: &[Route] = &[
    route("/Accounts/{AccountSid}/Usage/Records", "Usage over all time, or from StartDate to EndDate"),
    route("/Accounts/{AccountSid}/Usage/Records/AllTime", "Usage over all time"),
    route("/Accounts/{AccountSid}/Usage/Records/Daily", "Usage day by day"),
    route("/Accounts/{AccountSid}/Usage/Records/Monthly", "Usage month by month"),
    route("/Accounts/{AccountSid}/Usage/Records/Yearly", "Usage year by year"),
    route("/Accounts/{AccountSid}/Usage/Records/Today", "Usage of today (UTC)"),
    route("/Accounts/{AccountSid}/Usage/Records/Yesterday", "Usage of yesterday (UTC)"),
    route("/Accounts/{AccountSid}/Usage/Records/ThisMonth", "Usage of this month (UTC)"),
    route("/Accounts/{AccountSid}/Usage/Records/LastMonth", "Usage of last month (UTC)"),
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Usage/Triggers",
        summary: "Triggers of usage: an empty list, for none can be made",
        parameters: PAGE,
        answer: Shape::List("usage_triggers", || Value::Object(Vec::new())),
        handler: |context| {
            let names = ("usage_triggers", "UsageTrigger");
            Ok(paging::slice(context, &[], names, |_, (): &()| Value::Null))
        },
    },
];

/// First and last day, as days since 1970; and how they are cut.
fn span(context: &Context<'_>) -> (u64, u64, Period) {
    let today = context.state.now().unix_seconds() / DAY;
    let (year, month, date) = civil(today);
    // `date` counts from 1.
    let this_month = today + 1 - date;
    let last_month = if month == 1 { days(year - 1, 12, 1) } else { days(year, month - 1, 1) };
    // Nothing can be older than the account itself.
    let since = context.account.common.created_at.unix_seconds() / DAY;
    let day = |name| context.text(name).and_then(date::parse).map(|(start, _)| start.unix_seconds() / DAY);
    let given = (day("StartDate").unwrap_or(since), day("EndDate").unwrap_or(today));
    match context.request.segments.last().map_or("", String::as_str) {
        "Daily" => (given.0, given.1, Period::Day),
        "Monthly" => (given.0, given.1, Period::Month),
        "Yearly" => (given.0, given.1, Period::Year),
        // Fixed times ignore `StartDate` and `EndDate`.
        "Today" => (today, today, Period::All),
        "Yesterday" => (today.saturating_sub(1), today.saturating_sub(1), Period::All),
        "ThisMonth" => (this_month, today, Period::All),
        "LastMonth" => (last_month, this_month.saturating_sub(1), Period::All),
        "AllTime" => (since, today, Period::All),
        _ => (given.0, given.1, Period::All),
    }
}

/// One record for each period that had any usage and each category.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let (first, last, by) = span(context);
    if first > last {
        return Err(Fault::invalid(20400, "StartDate is later than EndDate"));
    }
    let start = Instant::from_unix_seconds(first * DAY);
    // The last day counts as a whole.
    let end = Instant::from_unix_seconds((last + 1) * DAY);
    let account = context.account.common.sid.as_str().into();
    let sums = context.state.usage(UsageFilter { account, from: Some(start), to: Some(end), by })?;
    let mut periods: Vec<&str> = sums.iter().map(|sum| &*sum.period).collect();
    // The store returns the rows by period, the latest first, so equal ones stand together.
    periods.dedup();
    // One record without usage rather than an empty list: Twilio lists every category.
    if periods.is_empty() && by == Period::All {
        periods.push("");
    }
    let wanted = context.text("Category");
    let categories =
        || CATEGORIES.iter().filter(|category| wanted.is_none_or(|wanted| wanted == category.name));
    let of_period = |period| categories().map(move |category| (period, category));
    let all: Vec<(&str, &Category)> = periods.into_iter().flat_map(of_period).collect();
    let names = ("usage_records", "UsageRecord");
    Ok(paging::slice(context, &all, names, |_, (period, category)| {
        let (from, to) = bounds(period, first, last);
        let matching = sums.iter().filter(|sum| *sum.period == **period && category.counts(sum));
        render(Some(context), category, Total::of(matching), from, to)
    }))
}

/// First and last day of a period, within what was asked for.
fn bounds(period: &str, first: u64, last: u64) -> (u64, u64) {
    let mut parts = period.split('-').map_while(|part| part.parse::<u64>().ok());
    // An empty period is the whole time.
    let Some(year) = parts.next() else { return (first, last) };
    let (from, to) = match (parts.next(), parts.next()) {
        (Some(month), Some(date)) => (days(year, month, date), days(year, month, date)),
        (Some(12), None) => (days(year, 12, 1), days(year + 1, 1, 1) - 1),
        (Some(month), None) => (days(year, month, 1), days(year, month + 1, 1) - 1),
        _ => (days(year, 1, 1), days(year + 1, 1, 1) - 1),
    };
    (from.max(first), to.min(last))
}

// Categories are sums over kind and direction: `calls` has an empty direction, which every direction starts with.
impl Category {
    fn counts(&self, sum: &Sum) -> bool {
        let direction = sum.direction.as_deref().unwrap_or_default();
        sum.kind == self.kind && direction.starts_with(self.direction)
    }
}

/// The sum over the rows of a category.
#[derive(Clone, Copy, Default)]
struct Total {
    /// Rows: calls, messages, recordings, transcriptions.
    count: u64,
    /// Seconds, or segments of messages.
    amount: u64,
    /// Seconds in whole minutes, each row rounded up.
    minutes: u64,
}

impl Total {
    fn of<'a>(sums: impl Iterator<Item = &'a Sum>) -> Self {
        sums.fold(Total::default(), |total, sum| Total {
            count: total.count + sum.count,
            amount: total.amount + sum.amount,
            minutes: total.minutes + sum.minutes,
        })
    }
}

fn render(context: Option<&Context<'_>>, category: &Category, total: Total, first: u64, last: u64) -> Value {
    let day = |day: u64| Value::Text(date::iso_day(Instant::from_unix_seconds(day * DAY)));
    // Twilio counts segments of messages as `count` and messages as `usage`; calls, and their minutes.
    let (count, usage) = if category.kind == Kind::Message {
        (total.amount, total.count)
    } else {
        (total.count, total.minutes)
    };
    let account = context.map_or("", |context| &context.account.common.sid);
    let uri = context.map_or(String::new(), |context| {
        format!("{}?Category={}", context.uri("/Usage/Records"), category.name)
    });
    Value::Object(vec![
        ("account_sid", Value::text(account)),
        version(context),
        ("as_of", context.map_or(Value::Null, |context| date_value(Some(context.state.now())))),
        ("category", Value::Text(category.name.into())),
        ("description", Value::Text(category.about.into())),
        ("start_date", day(first)),
        ("end_date", day(last)),
        ("count", Value::Text(count.to_string())),
        ("count_unit", Value::Text(category.count_unit.into())),
        ("usage", Value::Text(usage.to_string())),
        ("usage_unit", Value::Text(category.usage_unit.into())),
        ("price", Value::Text("0".into())),
        ("price_unit", Value::Text("usd".into())),
        ("uri", Value::Text(uri)),
        ("subresource_uris", Value::Object(Vec::new())),
    ])
}

/// For the description of the interface: the fields, without values.
fn example() -> Value {
    render(None, &CATEGORIES[0], Total::default(), 0, 0)
}
