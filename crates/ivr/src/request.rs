//! Requests to applications: methods, URLs and forms.
//!
//! A script makes [`Request`]s; the driver turns each into a [`Wire`] with the account's token and sends that.

use url::Url;

use crate::limits::URL_BYTES;
use crate::signature;

/// The HTTP method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The form is the query of the URL.
    Get,
    /// The form is the body.
    #[default]
    Post,
}

impl Method {
    /// Parses a method in any case, as both RestComm and Twilio do.
    pub fn parse(text: &str) -> Option<Method> {
        match text {
            _ if text.eq_ignore_ascii_case("GET") => Some(Method::Get),
            _ if text.eq_ignore_ascii_case("POST") => Some(Method::Post),
            _ => None,
        }
    }

    /// The method's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// Where to ask, and how. In a document the URL may be relative; in an effect it never is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A reference of RFC 3986.
    pub url: String,
    /// The method with which the URL is requested.
    pub method: Method,
}

/// The parameter that has the Call-ID of a call.
pub const CALL_ID: &str = "SipCallId";

/// Parameters in the order they were added. Names may repeat.
pub type Form = Vec<(String, String)>;

/// One HTTP request to an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method; it decides where the form goes.
    pub method: Method,
    /// Absolute, `http` or `https`, without what a GET adds to it.
    pub url: String,
    /// The parameters, in their order.
    pub form: Form,
}

/// A request as it goes on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The request URI, with the query of a GET.
    pub url: String,
    /// `application/x-www-form-urlencoded`, UTF-8. None for GET.
    pub body: Option<String>,
    /// The value of [`signature::HEADER`].
    pub signature: String,
    /// The Call-ID of the call that it is about, as the form has it; for traces.
    pub call_id: Option<String>,
}

impl Request {
    /// The form goes into the query of a GET and into the body of a POST; the fragment is never sent.
    pub fn to_wire(&self, auth_token: &str) -> Wire {
        let url = self.url.split('#').next().unwrap_or_default();
        let call_id = self.form.iter().find(|(name, _)| name == CALL_ID).map(|(_, value)| value.clone());
        match self.method {
            Method::Post => Wire {
                url: url.to_owned(),
                body: Some(encode(&self.form)),
                signature: signature::sign(auth_token, url, &self.form),
                call_id,
            },
            Method::Get => {
                let query = encode(&self.form);
                let joint = match (query.is_empty(), url.contains('?')) {
                    (true, _) => "",
                    (false, true) => "&",
                    (false, false) => "?",
                };
                let url = format!("{url}{joint}{query}");
                let signature = signature::sign(auth_token, &url, &[]);
                Wire { url, body: None, signature, call_id }
            }
        }
    }
}

/// `application/x-www-form-urlencoded` (WHATWG URL §5.2), UTF-8.
pub fn encode(form: &[(String, String)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form.iter().map(|(name, value)| (name, value)))
        .finish()
}

/// A reference against the URL of the document it stands in (RFC 3986 §5.2). Nothing when the result is none of
/// `schemes`, has no host (a `file:` has none, but a name), or is too long.
pub fn resolve(base: Option<&str>, reference: &str, schemes: &[&str]) -> Option<String> {
    let reference = reference.trim();
    if reference.len() > URL_BYTES {
        return None;
    }
    let base = base.and_then(|text| Url::parse(text).ok());
    let url = Url::options().base_url(base.as_ref()).parse(reference).ok()?;
    let has_place = match url.scheme() {
        "file" => url.host_str().is_none() && url.path().len() > 1,
        _ => url.host_str().is_some_and(|host| !host.is_empty()),
    };
    let served = schemes.contains(&url.scheme()) && has_place;
    let text = String::from(url);
    (served && text.len() <= URL_BYTES).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3986 §5.4.1 and §5.4.2, those that stay with HTTP. WHATWG's parser, which every application's own
    /// libraries use, adds the slash of an empty path.
    #[test]
    fn references_resolve() {
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q#s"),
            ("g#s", "http://a/b/c/g#s"),
            ("g?y#s", "http://a/b/c/g?y#s"),
            (";x", "http://a/b/c/;x"),
            ("g;x", "http://a/b/c/g;x"),
            ("g;x?y#s", "http://a/b/c/g;x?y#s"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("g#s/../x", "http://a/b/c/g#s/../x"),
            (" \n https://b/x \n", "https://b/x"),
        ] {
            let resolved = resolve(Some("http://a/b/c/d;p?q"), reference, &["http", "https"]);
            assert_eq!(resolved.as_deref(), Some(expected), "{reference:?}");
        }
    }

    #[test]
    fn references_that_are_no_http_url_are_refused() {
        for reference in ["g:h", "file:///etc/passwd", "javascript:1", "http://", "http://[::1", "data:,x"] {
            assert_eq!(resolve(Some("http://a/b"), reference, &["http", "https"]), None, "{reference}");
        }
        assert_eq!(resolve(None, "/x", &["http"]), None);
        assert_eq!(resolve(None, &format!("http://a/{}", "x".repeat(URL_BYTES)), &["http"]), None);
    }

    #[test]
    fn a_file_is_named_without_a_host() {
        let schemes = ["http", "file"];
        let file = |base, reference| resolve(base, reference, &schemes);
        assert_eq!(file(None, "file:menu.xml").as_deref(), Some("file:///menu.xml"));
        let base = Some("file:///menu.1.xml?Digits=1");
        for (reference, expected) in [
            ("", "file:///menu.1.xml?Digits=1"),
            ("menu.xml", "file:///menu.xml"),
            ("../../menu.xml", "file:///menu.xml"),
            ("http://a/b", "http://a/b"),
        ] {
            assert_eq!(file(base, reference).as_deref(), Some(expected), "{reference}");
        }
        for reference in ["file:/", "file:///", "//host/menu.xml"] {
            assert_eq!(file(base, reference), None, "{reference}");
        }
    }

    #[test]
    fn a_form_is_a_query_or_a_body() {
        let form: Form = vec![("From".into(), "+1 2".into()), ("Name".into(), "é&=".into())];
        let post = Request { method: Method::Post, url: "http://a/b?c=d#e".into(), form: form.clone() };
        let wire = post.to_wire("t");
        assert_eq!(
            (wire.url.as_str(), wire.body.as_deref()),
            ("http://a/b?c=d", Some("From=%2B1+2&Name=%C3%A9%26%3D"))
        );
        assert!(signature::verify("t", &wire.url, &form, &wire.signature));
        let get = Request { method: Method::Get, ..post };
        let wire = get.to_wire("t");
        assert_eq!((wire.url.as_str(), wire.body), ("http://a/b?c=d&From=%2B1+2&Name=%C3%A9%26%3D", None));
        assert!(signature::verify("t", &wire.url, &[], &wire.signature));
        let bare = Request { method: Method::Get, url: "http://a/b".into(), form: Vec::new() };
        assert_eq!(bare.to_wire("t").url, "http://a/b");
    }
}
