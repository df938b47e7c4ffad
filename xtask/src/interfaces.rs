//! `docs/reference/rest.md` and `docs/reference/console.md`, made of the OpenAPI documents that the code makes.

use std::fmt::Write as _;

use serde_json::Value;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// A page of all requests of a document.
fn page(title: &str, head: &str, document: &Value) -> String {
    let mut page = format!(
        "# {title}\n\nThis page is made of the OpenAPI document; `BLESS=1 cargo test -p xtask interfaces` writes it anew.\n\n{head}\n"
    );
    let paths = document["paths"].as_object().into_iter().flatten();
    let mut section = String::new();
    for (path, item) in paths {
        let name = section_of(path);
        if name != section {
            let _ = writeln!(page, "\n## {name}\n\n| request | what it does | parameters |\n|---|---|---|");
            section = name;
        }
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            let operation = &item[*method];
            let about = [operation["summary"].as_str(), operation["description"].as_str()];
            let about: Vec<&str> =
                about.into_iter().flatten().map(|text| text.trim_end_matches('.')).collect();
            let _ = writeln!(
                page,
                "| `{} {path}` | {} | {} |",
                method.to_uppercase(),
                about.join(". ").replace('|', "\\|").replace('<', "\\<"),
                parameters(operation)
            );
        }
    }
    page
}

/// The resource: the last part of the path that is no variable, without its suffix, of the first level below an account.
fn section_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let named = |part: &&&str| !part.starts_with('{');
    let below_account = parts.iter().skip_while(|part| !part.starts_with('{')).find(named);
    let part = match parts.first() {
        Some(&"Accounts") => below_account.or(parts.first()),
        Some(&"xmpp") => parts.get(1),
        first => first,
    };
    part.copied().unwrap_or_default().trim_end_matches(".json").to_owned()
}

fn parameters(operation: &Value) -> String {
    let mut names: Vec<String> = Vec::new();
    let query = operation["parameters"].as_array().into_iter().flatten();
    names.extend(query.filter_map(|parameter| Some(format!("`{}`", parameter["name"].as_str()?))));
    for content in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        let schema = &content.1["schema"];
        let is_required = |name: &str| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name))
        };
        let fields = schema["properties"].as_object().into_iter().flatten();
        names.extend(fields.map(|(name, _)| match is_required(name) {
            true => format!("**`{name}`**"),
            false => format!("`{name}`"),
        }));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    const REST: &str = "\
Below `/2010-04-01` as Twilio's, and below `/restcomm/2012-04-24` as RestComm's, at the address of `[rest] listen`. One signs in with an account's sid and token, or with an API key's sid and secret (HTTP Basic). Paths with `.json` answer in JSON, those without
in XML; chat, below `/v1`, in JSON. A parameter in bold has to be given. [openapi.json](../openapi.json) has the form of each parameter and answer; [applications](../applications.md#the-rest-interface) begins with
examples.";

    const CONSOLE: &str = "\
Below `/v1/admin` at the address of `[console] listen`: all that the pages of [the console](../console.md) show and change. A session begins with `POST /session`; each request names the least role that it needs. Each change shows the token
`csrf` of the session in `X-CSRF-Token`. A parameter in bold has to be given. [openapi-console.json](../openapi-console.json) has the forms.";

    #[test]
    fn the_pages_are_those_of_the_documents() {
        for (title, head, from, to) in [
            ("The REST interface", REST, "docs/openapi.json", "docs/reference/rest.md"),
            ("The console's interface", CONSOLE, "docs/openapi-console.json", "docs/reference/console.md"),
        ] {
            let document = std::fs::read_to_string(workspace().join(from)).expect("the document");
            let made = page(title, head, &serde_json::from_str(&document).expect("JSON"));
            let file = workspace().join(to);
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&file, &made).expect("docs can be written");
            }
            let kept = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(kept == made, "{to} is not what {from} makes: BLESS=1 cargo test -p xtask interfaces");
        }
    }

    #[test]
    fn requests_stand_with_their_resource() {
        for (path, section) in [
            ("/Accounts.json", "Accounts"),
            ("/Accounts/{Sid}.json", "Accounts"),
            ("/Accounts/{AccountSid}/Calls/{Sid}/Recordings.json", "Calls"),
            ("/xmpp/rooms/{Room}", "rooms"),
            ("/accounts/{account}", "accounts"),
        ] {
            assert_eq!(section_of(path), section, "{path}");
        }
    }
}
