//! The parameters of a request, read and checked against the table of requests.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use crate::fault::Fault;
use crate::limits;
use crate::routes::{Kind, Parameter, Route};

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    Texts(Vec<String>),
}

/// The parameters of a request, checked against the table.
#[derive(Debug, Default)]
pub(crate) struct Values(HashMap<&'static str, Value>);

impl Values {
    /// Reads the query of a GET.
    pub(crate) fn of_query(route: &Route, query: &str) -> Result<Values, Fault> {
        let mut map = Map::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let both = decode(name, true).zip(decode(value, true));
            let (name, value) =
                both.ok_or_else(|| Fault::invalid("the query is not percent-encoded UTF-8"))?;
            // An empty field of a form is a parameter that is not given.
            if value.is_empty() {
                continue;
            }
            let kind = route.parameters.iter().find(|one| one.name == name).map(|one| one.kind);
            let value = match kind {
                Some(Kind::Number { .. }) => value.parse::<u64>().map_or(Json::String(value), Json::from),
                _ => Json::String(value),
            };
            map.insert(name, value);
        }
        Values::of_map(route, map)
    }

    /// Reads the JSON object of a change; an empty body is an empty object.
    pub(crate) fn of_body(route: &Route, body: &[u8]) -> Result<Values, Fault> {
        if body.is_empty() {
            return Values::of_map(route, Map::new());
        }
        match serde_json::from_slice(body) {
            Ok(Json::Object(map)) => Values::of_map(route, map),
            Ok(_) | Err(_) => Err(Fault::invalid("the body must be a JSON object")),
        }
    }

    fn of_map(route: &Route, map: Map<String, Json>) -> Result<Values, Fault> {
        let mut values = HashMap::new();
        for (name, value) in map.into_iter().filter(|(_, value)| !value.is_null()) {
            let Some(parameter) = route.parameters.iter().find(|one| one.name == name) else {
                let known: Vec<&str> = route.parameters.iter().map(|one| one.name).collect();
                let message = match known.is_empty() {
                    true => "expected no parameter here".to_owned(),
                    false => format!("unknown parameter; expected {}", known.join(", ")),
                };
                return Err(Fault::invalid(message));
            };
            let value = read(parameter, value)
                .ok_or_else(|| Fault::invalid(format!("{name}: expected {}", form(parameter.kind))))?;
            values.insert(parameter.name, value);
        }
        match route.parameters.iter().find(|one| one.is_required && !values.contains_key(one.name)) {
            Some(missing) => Err(Fault::invalid(format!("{} is missing: {}", missing.name, missing.doc))),
            None => Ok(Values(values)),
        }
    }

    /// A text; empty when it is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.some_text(name).unwrap_or_default()
    }

    pub(crate) fn some_text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A number whose maximum in the table is that of the type.
    pub(crate) fn small(&self, name: &str) -> Option<u32> {
        self.number(name).and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Flag(true)))
    }

    pub(crate) fn texts(&self, name: &str) -> &[String] {
        match self.0.get(name) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// The rows of a page.
    pub(crate) fn limit(&self) -> u32 {
        self.small("limit").unwrap_or(limits::PAGE).clamp(1, limits::MAX_PAGE)
    }
}

fn read(parameter: &Parameter, value: Json) -> Option<Value> {
    let bounded = |text: String| (text.len() <= limits::MAX_TEXT).then_some(text);
    match (parameter.kind, value) {
        (Kind::Text, Json::String(text)) => {
            let text = bounded(text)?;
            (!(parameter.is_required && text.is_empty())).then_some(Value::Text(text))
        }
        (Kind::Credential, Json::String(text)) => {
            let is_good = !text.is_empty() && text.len() <= limits::MAX_CREDENTIAL;
            is_good.then_some(Value::Text(text))
        }
        (Kind::Document, Json::String(text)) => {
            (text.len() <= limits::MAX_DOCUMENT).then_some(Value::Text(text))
        }
        (Kind::Number { max }, Json::Number(number)) => {
            number.as_u64().filter(|number| *number <= max).map(Value::Number)
        }
        (Kind::Flag, Json::Bool(flag)) => Some(Value::Flag(flag)),
        (Kind::Texts, Json::Array(values)) => {
            let read = |value| match value {
                Json::String(text) => bounded(text),
                _ => None,
            };
            values.into_iter().map(read).collect::<Option<Vec<_>>>().map(Value::Texts)
        }
        _ => None,
    }
}

fn form(kind: Kind) -> String {
    match kind {
        Kind::Text => format!("a text of at most {} bytes", limits::MAX_TEXT),
        Kind::Credential => format!("a password or token of at most {} bytes", limits::MAX_CREDENTIAL),
        Kind::Document => format!("a document of at most {} bytes", limits::MAX_DOCUMENT),
        Kind::Number { max } => format!("a whole number up to {max}"),
        Kind::Flag => "true or false".into(),
        Kind::Texts => "an array of texts".into(),
    }
}

/// Percent-decoding (RFC 3986 §2.1); `is_form`: a plus sign is a space. None: no UTF-8, or longer than a text may be.
pub(crate) fn decode(text: &str, is_form: bool) -> Option<String> {
    decode_up_to(limits::MAX_TEXT, text, is_form)
}

/// The same for a text of at most so many bytes.
pub(crate) fn decode_up_to(most: usize, text: &str, is_form: bool) -> Option<String> {
    if text.len() > 3 * most {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let (high, low) = (bytes.next()?, bytes.next()?);
                stdx::hex::decode_array::<1>([high, low])?[0]
            }
            b'+' if is_form => b' ',
            other => other,
        });
    }
    String::from_utf8(out).ok().filter(|text| text.len() <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::find;

    #[test]
    fn parameters_are_those_of_the_table_and_of_its_kinds() {
        let accounts = find("GET", "/accounts").ok().unwrap().route;
        let values = Values::of_query(accounts, "prefix=a+%2Bb&limit=7&after=").unwrap();
        assert_eq!((values.text("prefix"), values.limit(), values.some_text("after")), ("a +b", 7, None));
        for (query, problem) in [
            ("limit=501", "limit: expected a whole number up to 500"),
            ("limit=x", "limit: expected"),
            ("colour=red", "unknown parameter; expected domain, prefix, after, limit"),
            ("prefix=%ff", "percent-encoded"),
        ] {
            let fault = Values::of_query(accounts, query).unwrap_err();
            assert!(fault.message.contains(problem), "{}", fault.message);
        }
        let add = find("POST", "/accounts").ok().unwrap().route;
        let values = Values::of_body(add, br#"{"address":"a","password":"b","display_name":null}"#).unwrap();
        assert_eq!(values.text("password"), "b");
        let long = format!(r#"{{"address":"{}","password":"b"}}"#, "a".repeat(limits::MAX_TEXT + 1));
        for (body, problem) in [
            ("[]", "JSON object"),
            ("{", "JSON object"),
            (r#"{"address":"a"}"#, "password is missing"),
            (r#"{"address":"","password":"b"}"#, "address: expected"),
            (r#"{"address":1,"password":"b"}"#, "address: expected a text"),
            (&long, "address: expected a text of at most"),
        ] {
            let fault = Values::of_body(add, body.as_bytes()).unwrap_err();
            assert!(fault.message.contains(problem), "{}", fault.message);
        }
    }
}
