//! Lists: which page was asked for, and the fields around the items in both forms.
//!
//! [`rows`] is for lists of the database, which pages by itself, and [`slice`] for lists that are in memory. Both give an [`Answer::List`], which
//! `http` writes with the links to other pages.

use store::rest::{Kind, Resource, RestFilter, Row, SortBy};

use crate::fault::Fault;
use crate::limits;
use crate::nodes::NodesAnswered;
use crate::request::{Request, encode};
use crate::table::{Answer, Context, List};
use crate::table::{Kind as Of, Parameter};
use crate::value::{Value, camel, escape_xml};

/// The parameters of every list.
pub(crate) const PAGING: &[Parameter] = &[
    Parameter { name: "Page", kind: Of::Int { min: 0, max: limits::MAX_PAGE } },
    Parameter { name: "PageSize", kind: Of::Int { min: 1, max: u32::MAX } },
    Parameter { name: "SortBy", kind: Of::Text },
];

/// Page and page size.
pub(crate) fn wanted(context: &Context<'_>) -> (u32, u32) {
    let size = context.int("PageSize").unwrap_or(limits::PAGE_SIZE).clamp(1, limits::MAX_PAGE_SIZE);
    (context.int("Page").unwrap_or(0), size)
}

/// One page of rows that match, newest first unless `SortBy` says otherwise.
pub(crate) fn rows<T: Resource>(
    context: &Context<'_>,
    filter: RestFilter,
    (key, item): (&'static str, &'static str),
    render: impl Fn(&Context<'_>, &T) -> Value,
) -> Result<Answer, Fault> {
    let (page, page_size) = wanted(context);
    let (sort, ascending) = sort(context)?;
    let offset = u64::from(page) * u64::from(page_size);
    let filter = RestFilter { offset, limit: page_size, sort, ascending, ..filter };
    let (rows, total) = context.state.list(filter)?;
    let render = |row: &Row| Ok(render(context, &T::from_row(row)?));
    let values = rows.iter().map(render).collect::<Result<_, Fault>>()?;
    Ok(Answer::List(Box::new(List { key, item, values, page, page_size, total, nodes: None })))
}

/// One page of what is in memory anyway.
pub(crate) fn slice<T>(
    context: &Context<'_>,
    all: &[T],
    (key, item): (&'static str, &'static str),
    render: impl Fn(usize, &T) -> Value,
) -> Answer {
    let (page, page_size) = wanted(context);
    let start = (page as usize).saturating_mul(page_size as usize);
    let values = all.iter().enumerate().skip(start).take(page_size as usize);
    let values = values.map(|(index, value)| render(index, value)).collect();
    Answer::List(Box::new(List { key, item, values, page, page_size, total: all.len() as u64, nodes: None }))
}

/// The rows of this account.
pub(crate) fn of_account(context: &Context<'_>, kind: Kind) -> RestFilter {
    RestFilter { account: Some(context.account.common.sid.as_str().into()), ..RestFilter::all(kind) }
}

/// COMPAT(RestComm): `SortBy=From:asc`.
fn sort(context: &Context<'_>) -> Result<(SortBy, bool), Fault> {
    let Some(text) = context.text("SortBy") else { return Ok((SortBy::Created, false)) };
    let (field, direction) = text.split_once(':').unwrap_or((text, "asc"));
    let by = match field {
        // Twilio's and RestComm's names of fields, and the column that has each.
        "DateCreated" | "StartTime" | "DateSent" => SortBy::Created,
        "From" => SortBy::From,
        "To" => SortBy::To,
        "Direction" => SortBy::Direction,
        "Status" => SortBy::Status,
        "Duration" => SortBy::Amount,
        "FriendlyName" | "PhoneNumber" | "Login" => SortBy::Name,
        _ => return Err(Fault::invalid(20400, format!("SortBy: nothing is sorted by {field:?}"))),
    };
    match direction {
        "asc" => Ok((by, true)),
        "desc" => Ok((by, false)),
        _ => Err(Fault::invalid(20400, format!("SortBy {text:?}: expected a field, and asc or desc"))),
    }
}

/// The fields that say how many nodes of a farm answered, and which did not.
pub(crate) fn nodes_of(nodes: &NodesAnswered) -> [(&'static str, Value); 3] {
    let int = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    [
        ("nodes", int(nodes.total())),
        ("nodes_answered", int(nodes.answered.len())),
        ("nodes_missing", nodes.names_of_missing().map_or(Value::Null, Value::Text)),
    ]
}

impl List {
    /// Name and value of each field around the items.
    fn fields(&self, request: &Request) -> Vec<(&'static str, Value)> {
        let pages = self.total.div_ceil(u64::from(self.page_size)).max(1);
        let last = u32::try_from(pages - 1).unwrap_or(u32::MAX);
        let start = u64::from(self.page) * u64::from(self.page_size);
        // Both ends of an empty page are its start.
        let end = start + (self.values.len() as u64).saturating_sub(1);
        let int = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        let link = |page: Option<u32>| page.map_or(Value::Null, |page| Value::Text(self.link(request, page)));
        let mut fields = vec![
            ("page", int(u64::from(self.page))),
            ("num_pages", int(pages)),
            ("page_size", int(u64::from(self.page_size))),
            ("total", int(self.total)),
            ("start", int(start)),
            ("end", int(end)),
            ("uri", link(Some(self.page))),
            ("first_page_uri", link(Some(0))),
            ("previous_page_uri", link(self.page.checked_sub(1).map(|page| page.min(last)))),
            ("next_page_uri", link((self.page < last).then(|| self.page + 1))),
            ("last_page_uri", link(Some(last))),
        ];
        fields.extend(self.nodes.as_ref().into_iter().flat_map(nodes_of));
        fields
    }

    /// The same request for another page.
    fn link(&self, request: &Request, page: u32) -> String {
        let mut link = format!("{}?", request.path);
        for (name, value) in
            request.parameters.iter().filter(|(name, _)| !matches!(&**name, "Page" | "PageSize"))
        {
            encode(name, &mut link);
            link.push('=');
            encode(value, &mut link);
            link.push('&');
        }
        link.push_str(&format!("PageSize={}&Page={page}", self.page_size));
        link
    }

    /// The fields of paging, and the items under their key.
    pub(crate) fn json(&self, request: &Request, out: &mut String) {
        Value::Object(self.fields(request)).json(out);
        // The list goes into the object that was just closed.
        out.pop();
        out.push_str(&format!(",\"{}\":[", self.key));
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            value.json(out);
        }
        out.push_str("]}");
    }

    /// As Twilio's XML has it: paging in attributes, their names without underscores.
    pub(crate) fn xml(&self, request: &Request, out: &mut String) {
        let name = camel(self.key);
        out.push_str(&format!("<{name}"));
        for (field, value) in self.fields(request) {
            let mut text = String::new();
            match value {
                Value::Text(value) => escape_xml(&value, &mut text),
                Value::Null => {}
                other => other.json(&mut text),
            }
            out.push_str(&format!(" {}=\"{text}\"", field.replace('_', "")));
        }
        out.push('>');
        for value in &self.values {
            value.xml(self.item, out);
        }
        out.push_str(&format!("</{name}>"));
    }
}

/// First and last moment of a filter by date: a day, or open to one side as `StartTime>=` and `StartTime<=`.
pub(crate) fn range(context: &Context<'_>, name: &str) -> (Option<stdx::Instant>, Option<stdx::Instant>) {
    let date = |name: &str| context.text(name).and_then(crate::date::parse);
    let day = date(name);
    let from = date(&format!("{name}>")).map(|(start, _)| start).or(day.map(|(start, _)| start));
    let to = date(&format!("{name}<")).map(|(_, end)| end).or(day.map(|(_, end)| end));
    (from, to)
}
