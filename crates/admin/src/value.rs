//! The content of an answer, before it is JSON or XML. Names are in snake_case; XML writes them in CamelCase.
//!
//! Handlers make a [`Value`] and do not know in which form it is written.

/// Nulls are `null` in JSON and an empty element in XML.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A string.
    Text(String),
    /// A whole number.
    Int(i64),
    /// `true` or `false`.
    Bool(bool),
    /// Named fields, in the order in which they are written.
    Object(Vec<(&'static str, Value)>),
}

impl Value {
    /// Null when empty.
    pub fn text(text: &str) -> Self {
        if text.is_empty() { Value::Null } else { Value::Text(text.into()) }
    }

    /// Figures that Twilio writes as texts.
    pub fn figure(figure: Option<impl std::fmt::Display>) -> Self {
        figure.map_or(Value::Null, |figure| Value::Text(figure.to_string()))
    }

    /// Appends the value as JSON.
    pub fn json(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Text(text) => json_text(text, out),
            Value::Int(number) => out.push_str(&number.to_string()),
            Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::Object(fields) => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    json_text(name, out);
                    out.push(':');
                    value.json(out);
                }
                out.push('}');
            }
        }
    }

    /// As the element `name`, which is in CamelCase.
    pub fn xml(&self, name: &str, out: &mut String) {
        let mut escaped = String::new();
        match self {
            Value::Null => {
                out.push_str(&format!("<{name}/>"));
                return;
            }
            Value::Text(text) => escape_xml(text, &mut escaped),
            other @ (Value::Int(_) | Value::Bool(_)) => other.json(&mut escaped),
            Value::Object(fields) => {
                // Fields of JSON are in snake_case, elements of Twilio's XML in CamelCase.
                for (field, value) in fields {
                    value.xml(&camel(field), &mut escaped);
                }
            }
        }
        out.push_str(&format!("<{name}>{escaped}</{name}>"));
    }
}

/// RFC 8259 §7: quotation marks, backslashes and control characters are escaped.
pub(crate) fn json_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// XML 1.0 §2.2 has no way to write most control characters: they are left out.
pub(crate) fn escape_xml(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(c),
            // XML 1.0 §2.11: a parser would turn a bare carriage return into a line feed.
            '\r' => out.push_str("&#13;"),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
}

/// `voice_url` is `VoiceUrl`.
pub(crate) fn camel(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_in_both_forms() {
        let value = Value::Object(vec![
            ("friendly_name", Value::Text("a \"b\" <&>\u{1}\n".into())),
            ("sid", Value::Null),
            ("beta", Value::Bool(false)),
            ("subresource_uris", Value::Object(vec![("page_size", Value::Int(-3))])),
        ]);
        let (mut json, mut xml) = (String::new(), String::new());
        value.json(&mut json);
        value.xml("Call", &mut xml);
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["friendly_name"], "a \"b\" <&>\u{1}\n");
        assert_eq!(read["subresource_uris"]["page_size"], -3);
        assert_eq!(
            xml,
            "<Call><FriendlyName>a &quot;b&quot; &lt;&amp;&gt;\n</FriendlyName><Sid/><Beta>false</Beta>\
             <SubresourceUris><PageSize>-3</PageSize></SubresourceUris></Call>"
        );
    }
}
