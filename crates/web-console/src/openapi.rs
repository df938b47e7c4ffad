//! The OpenAPI 3.1 document of the console's interface, made of the table of requests.

use serde_json::{Map, Value, json};

use crate::limits;
use crate::routes::{self, BASE, Kind, Parameter, Route};

/// JSON, indented, with a line end: the text of `docs/openapi-console.json`.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&value()).unwrap_or_default();
    text.push('\n');
    text
}

pub(crate) fn value() -> Value {
    let mut paths = Map::new();
    for route in routes::all() {
        let item = paths.entry(route.path).or_insert_with(|| path_item(route.path));
        item[route.method.to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Belfry's console",
            "version": "1",
            "description": "What the operators' pages show and change. Sign in with POST /session; the answer has the cookie of a session, and the token that each change shows in the header X-CSRF-Token. Where tokens of an identity provider give roles, a request may have one in Authorization: Bearer instead.",
        },
        "servers": [{ "url": BASE }],
        "security": [{ "session": [] }, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "session": { "type": "apiKey", "in": "cookie", "name": crate::guard::COOKIE_NAME },
                "bearer": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
            },
            "schemas": { "Fault": { "type": "object", "properties": { "error": { "type": "string" } } } },
        },
    })
}

fn path_item(path: &str) -> Value {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if parameters.is_empty() { json!({}) } else { json!({ "parameters": parameters }) }
}

fn operation(route: &Route) -> Value {
    let content = match route.path {
        path if path.ends_with(".csv") => "text/csv",
        path if path.ends_with(".wav") => "audio/x-wav",
        _ => "application/json",
    };
    let role = route.role.map_or("none", crate::role::Role::name);
    let mut operation = json!({
        "operationId": route.operation.name(),
        "summary": route.summary,
        "description": format!("Least role: {role}."),
        "responses": {
            "200": { "description": "Done", "content": { content: {} } },
            "default": {
                "description": "The reason of the refusal",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Fault" } } },
            },
        },
    });
    if route.role.is_none() {
        operation["security"] = json!([]);
    }
    if route.parameters.is_empty() {
        return operation;
    }
    if route.is_change() {
        operation["requestBody"] = body(route.parameters);
    } else {
        let query = route.parameters.iter().map(|one| {
            json!({
                "name": one.name, "in": "query", "required": one.is_required, "description": one.doc, "schema": schema(one),
            })
        });
        operation["parameters"] = query.collect();
    }
    operation
}

fn body(parameters: &[Parameter]) -> Value {
    let mut properties = Map::new();
    for parameter in parameters {
        let mut schema = schema(parameter);
        schema["description"] = parameter.doc.into();
        properties.insert(parameter.name.to_owned(), schema);
    }
    let required: Vec<&str> = parameters.iter().filter(|one| one.is_required).map(|one| one.name).collect();
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    json!({ "required": !required.is_empty(), "content": { "application/json": { "schema": schema } } })
}

fn schema(parameter: &Parameter) -> Value {
    match parameter.kind {
        Kind::Text => json!({ "type": "string", "maxLength": limits::MAX_TEXT }),
        Kind::Credential => json!({ "type": "string", "maxLength": limits::MAX_CREDENTIAL }),
        Kind::Document => json!({ "type": "string", "maxLength": limits::MAX_DOCUMENT }),
        Kind::Number { max } => json!({ "type": "integer", "minimum": 0, "maximum": max }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Texts => {
            json!({ "type": "array", "items": { "type": "string", "maxLength": limits::MAX_TEXT } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_the_one_that_the_table_makes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-console.json");
        let made = document();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == made,
            "docs/openapi-console.json is not what the code makes: BLESS=1 cargo test -p web-console"
        );
    }

    #[test]
    fn every_request_of_the_table_is_in_the_document() {
        let document = value();
        for route in routes::all() {
            let operation = &document["paths"][route.path][route.method.to_lowercase()];
            assert_eq!(operation["summary"], route.summary, "{} {}", route.method, route.path);
        }
    }
}
