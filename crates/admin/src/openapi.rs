//! The OpenAPI 3.1 document of the table: paths, parameters, and answers from each resource's own writing.
//!
//! A test compares [`document`] with `docs/openapi.json`. Schemas are made of the examples in the table: the types of their fields are those of the
//! answers.

use std::collections::BTreeMap;

use crate::limits;
use crate::request::Base;
use crate::table::{Kind, Parameter, Route, Shape, own_routes, routes};
use crate::value::{Value, camel, json_text};

/// JSON, indented, with a line end: what `docs/openapi.json` holds.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&value()).expect("a value has a text");
    text.push('\n');
    text
}

/// The same in one line.
pub(crate) fn compact() -> String {
    value().to_string()
}

/// The document is put together as text and parsed at the end, which proves that it is JSON.
fn value() -> serde_json::Value {
    let mut paths: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    let mut schemas: BTreeMap<String, String> = BTreeMap::new();
    for route in routes().chain(own_routes()) {
        paths.entry(route.path).or_default().push(route);
        let (name, example) = match route.answer {
            Shape::Item(_, name, example) => (name.to_owned(), example),
            Shape::List(key, example) | Shape::FarmList(key, example) => (item_name(key), example),
            Shape::Nothing => continue,
        };
        schemas.entry(name).or_insert_with(|| schema(&example()));
    }
    let paths = paths.iter().map(|(path, routes)| match path.starts_with("/xmpp/") {
        true => ((*path).to_owned(), path_item(routes, Some(Base::Belfry))),
        false => (format!("{path}.json"), path_item(routes, None)),
    });
    let paths = object(paths);
    let schemas = object(schemas.into_iter().chain([("Fault".to_owned(), fault_schema())]));
    let text = format!(
        r##"{{"openapi":"3.1.0","info":{{"title":"Belfry's REST interface","version":"{}","description":{}}},
        "servers":[{{"url":"{}"}},{{"url":"{}"}}],"security":[{{"token":[]}},{{"identity":[]}}],"paths":{paths},
        "components":{{"schemas":{schemas},"securitySchemes":{{"token":{{"type":"http","scheme":"basic"}},"identity":{{"type":"http","scheme":"bearer","bearerFormat":"JWT"}}}}}}}}"##,
        Base::Twilio.version(),
        quoted(
            "Numbers, calls and what comes of them, as RestComm and Twilio have it. Every path also answers in \
             XML: without its suffix, or with .xml. Chat (/v1/xmpp) answers in JSON. The name is the account's sid, the password its token; or the sid and the secret of an API key of the account. A token of an identity provider that names the account does what an API key does."
        ),
        Base::Twilio.prefix(),
        Base::Restcomm.prefix(),
    );
    serde_json::from_str(&text).expect("every part is written as JSON")
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    json_text(text, &mut out);
    out
}

/// Names and JSON to an object.
fn object(fields: impl IntoIterator<Item = (String, String)>) -> String {
    let fields: Vec<String> =
        fields.into_iter().map(|(name, json)| format!("{}:{json}", quoted(&name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// `usage_records` is a list of `UsageRecord`.
fn item_name(key: &str) -> String {
    match key {
        "outgoing_caller_ids" => "OutgoingCallerId".into(),
        "countries" => "Country".into(),
        _ => camel(key.strip_suffix('s').unwrap_or(key)),
    }
}

/// `base`: where that path is, if it is elsewhere than most.
fn path_item(routes: &[&Route], base: Option<Base>) -> String {
    let variables = routes[0].path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let variables: Vec<String> = variables
        .map(|name| {
            format!(r#"{{"name":{},"in":"path","required":true,"schema":{{"type":"string"}}}}"#, quoted(name))
        })
        .collect();
    let parameters = ("parameters".to_owned(), format!("[{}]", variables.join(",")));
    let operations = routes.iter().map(|route| (route.method.to_lowercase(), operation(route)));
    let servers = base.map(|base| ("servers".to_owned(), format!(r#"[{{"url":"{}"}}]"#, base.prefix())));
    object([parameters].into_iter().chain(servers).chain(operations))
}

/// One operation object (OpenAPI 3.1 §4.8.10).
fn operation(route: &Route) -> String {
    // Parameters that are only refused are not offered.
    let is_supported = |parameter: &&Parameter| !matches!(parameter.kind, Kind::Unsupported(_));
    let parameters: Vec<&Parameter> =
        route.parameters.iter().copied().flatten().filter(is_supported).collect();
    let mut fields = vec![
        ("summary".to_owned(), quoted(route.summary)),
        ("operationId".to_owned(), quoted(&operation_id(route))),
        ("responses".to_owned(), responses(route)),
    ];
    // POST has its parameters in a form, other methods in the query.
    if route.method == "POST" {
        let properties = parameters.iter().map(|parameter| (parameter.name.to_owned(), kind(parameter.kind)));
        let schema = format!(r#"{{"type":"object","properties":{}}}"#, object(properties));
        let body = format!(r#"{{"content":{{"application/x-www-form-urlencoded":{{"schema":{schema}}}}}}}"#);
        fields.push(("requestBody".to_owned(), body));
    } else if !parameters.is_empty() {
        let query = parameters.iter().map(|parameter| {
            let (name, schema) = (quoted(parameter.name), kind(parameter.kind));
            format!(r#"{{"name":{name},"in":"query","schema":{schema}}}"#)
        });
        fields.push(("parameters".to_owned(), format!("[{}]", query.collect::<Vec<_>>().join(","))));
    }
    object(fields)
}

/// `getCallsSid`, `getAccountsAccountSid`: unique, because method and path are.
fn operation_id(route: &Route) -> String {
    let path = route.path.strip_prefix("/Accounts/{AccountSid}/").unwrap_or(route.path);
    let words: String = path.split(['/', '{', '}']).collect();
    format!("{}{words}", route.method.to_lowercase())
}

/// The answer on success, and `Fault` for every other status.
fn responses(route: &Route) -> String {
    let content = |schema: String| format!(r#""content":{{"application/json":{{"schema":{schema}}}}}"#);
    let reference = |name: &str| format!(r##"{{"$ref":"#/components/schemas/{name}"}}"##);
    let good = match route.answer {
        Shape::Nothing => ("204".to_owned(), r#"{"description":"Done"}"#.to_owned()),
        Shape::Item(status, name, _) => {
            (status.to_string(), format!(r#"{{"description":"{name}",{}}}"#, content(reference(name))))
        }
        Shape::List(key, _) | Shape::FarmList(key, _) => {
            let item = reference(&item_name(key));
            let nodes = match route.answer {
                Shape::FarmList(..) => {
                    format!(r#""nodes":{INT},"nodes_answered":{INT},"nodes_missing":{TEXT},"#)
                }
                _ => String::new(),
            };
            let list = format!(
                r#"{{"type":"object","properties":{{{nodes}"{key}":{{"type":"array","items":{item}}},
                "page":{INT},"num_pages":{INT},"page_size":{INT},"total":{INT},"start":{INT},"end":{INT},
                "uri":{TEXT},"first_page_uri":{TEXT},"previous_page_uri":{TEXT},"next_page_uri":{TEXT},
                "last_page_uri":{TEXT}}}}}"#
            );
            ("200".to_owned(), format!(r#"{{"description":"A page",{}}}"#, content(list)))
        }
    };
    let fault = format!(r#"{{"description":"What was wrong",{}}}"#, content(reference("Fault")));
    object([good, ("default".to_owned(), fault)])
}

/// The schema of a whole number.
const INT: &str = r#"{"type":"integer"}"#;
// Any text of an answer may be null: Twilio writes missing values so.
const TEXT: &str = r#"{"type":["string","null"]}"#;

/// The schema of a parameter. An absolute URL and a path on the server are both a `uri-reference` (RFC 3986 §4.1).
fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Unsupported(_) => {
            format!(r#"{{"type":"string","maxLength":{}}}"#, limits::MAX_VALUE)
        }
        Kind::Document => format!(r#"{{"type":"string","maxLength":{}}}"#, limits::MAX_DOCUMENT),
        Kind::Url => r#"{"type":"string","format":"uri-reference"}"#.into(),
        Kind::Method => r#"{"type":"string","enum":["GET","POST"]}"#.into(),
        Kind::Int { min, max } => format!(r#"{{"type":"integer","minimum":{min},"maximum":{max}}}"#),
        Kind::Bool => r#"{"type":"boolean"}"#.into(),
        Kind::Date => r#"{"type":"string","examples":["2026-11-21","2026-11-21T12:00:00Z"]}"#.into(),
        Kind::Choice(of) => {
            let of: Vec<String> = of.iter().map(|one| quoted(one)).collect();
            format!(r#"{{"type":"string","enum":[{}]}}"#, of.join(","))
        }
    }
}

/// The schema of a resource, inferred from its example. Its texts may all be missing.
fn schema(example: &Value) -> String {
    match example {
        Value::Null | Value::Text(_) => TEXT.into(),
        Value::Int(_) => r#"{"type":["integer","null"]}"#.into(),
        Value::Bool(_) => r#"{"type":"boolean"}"#.into(),
        Value::Object(fields) => {
            let properties = fields.iter().map(|(name, value)| ((*name).to_owned(), schema(value)));
            format!(r#"{{"type":"object","properties":{}}}"#, object(properties))
        }
    }
}

fn fault_schema() -> String {
    format!(
        r#"{{"type":"object","properties":{{"code":{INT},"message":{TEXT},"more_info":{TEXT},"status":{INT}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_openapi_document_equals_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let made = document();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == made,
            "docs/openapi.json is not what the code makes: BLESS=1 cargo test -p admin"
        );
    }

    #[test]
    fn every_schema_reference_resolves_and_operation_ids_are_unique() {
        let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document["paths"].to_string();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name: String = text[at + 21..].chars().take_while(|c| *c != '"').collect();
            assert!(schemas.contains_key(&name), "{name}");
        }
        let mut ids = std::collections::HashSet::new();
        assert!(routes().chain(own_routes()).all(|route| ids.insert(operation_id(route))));
    }
}
