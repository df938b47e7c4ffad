//! OAUTHBEARER (RFC 7628): a token of an identity provider instead of a password. The driver has it checked.

use super::{Context, Failure, Secret, is_self};

/// RFC 7628 §3.2.2: the client answers with one byte, and the exchange fails. `configuration`: the URL of the provider's configuration, by which a
/// client can get another token.
pub(super) fn refused(configuration: Option<&str>) -> Vec<u8> {
    // Text of RFC 8259 §7 that needs no escape; a URL has no other.
    let is_plain =
        |url: &&str| url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    let more = configuration.filter(is_plain).map(|url| format!(r#","openid-configuration":"{url}""#));
    format!(r#"{{"status":"invalid_token"{}}}"#, more.unwrap_or_default()).into_bytes()
}

/// The message of a client (RFC 7628 §3.1): the user that it names, or nothing, and its token.
pub(super) fn read(message: &[u8], context: &Context) -> Result<(Box<str>, Secret), Failure> {
    let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
    // `gs2-header kvsep *kvpair kvsep`, where the separator is 0x01.
    let text = text.strip_suffix("\u{1}\u{1}").ok_or(Failure::MalformedRequest)?;
    let mut parts = text.split('\u{1}');
    let user = named(parts.next().unwrap_or_default(), context)?;
    let mut token = None;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or(Failure::MalformedRequest)?;
        // Host and port are of the client's view; keys that are not known are passed over (RFC 7628 §3.1).
        if key == "auth" && token.replace(bearer(value)?).is_some() {
            return Err(Failure::MalformedRequest);
        }
    }
    Ok((user, token.ok_or(Failure::MalformedRequest)?))
}

/// The `authzid` of a GS2 header (RFC 5801 §4), without its domain. This mechanism has no channel binding.
fn named(header: &str, context: &Context) -> Result<Box<str>, Failure> {
    let mut parts = header.split(',');
    let (flag, authorized, rest) = (parts.next(), parts.next(), parts.next());
    if !matches!(flag, Some("n" | "y")) || rest != Some("") || parts.next().is_some() {
        return Err(Failure::MalformedRequest);
    }
    let authorized = match authorized {
        Some("") => return Ok("".into()),
        Some(named) => named.strip_prefix("a=").ok_or(Failure::MalformedRequest)?,
        None => return Err(Failure::MalformedRequest),
    };
    // RFC 5801 §4: `=2C` and `=3D` are a comma and an equals sign.
    let authorized = authorized.replace("=2C", ",").replace("=3D", "=");
    let user = authorized.split_once('@').map_or(&*authorized, |(local, _)| local);
    is_self(&authorized, user, context)?;
    Ok(user.into())
}

/// RFC 6750 §2.1; the scheme is compared without regard to case (RFC 9110 §11.1).
fn bearer(value: &str) -> Result<Secret, Failure> {
    let (scheme, token) = value.split_once(' ').ok_or(Failure::MalformedRequest)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("Bearer") || token.is_empty() {
        return Err(Failure::MalformedRequest);
    }
    Ok(Secret(token.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<(Box<str>, Secret), Failure> {
        super::read(message, &Context { domain: "example.com".into(), ..Context::default() })
    }

    #[test]
    fn the_example_of_rfc_7628() {
        let message = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
                        auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        let token = Secret("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==".into());
        assert_eq!(read(message), Ok(("user".into(), token)));
        let other = b"n,a=user@other.example,\x01auth=Bearer x\x01\x01";
        assert_eq!(read(other), Err(Failure::InvalidAuthzid));
        assert_eq!(read(b"n,,\x01auth=bearer x\x01\x01"), Ok(("".into(), Secret("x".into()))));
        assert_eq!(read(b"y,a=a=2Cb=3D,\x01auth=Bearer x\x01\x01").map(|(user, _)| user), Ok("a,b=".into()));
    }

    #[test]
    fn a_refusal_names_the_configuration_of_the_provider_where_it_is_known() {
        let url = "https://id.example.com/.well-known/openid-configuration";
        let named = format!(r#"{{"status":"invalid_token","openid-configuration":"{url}"}}"#);
        assert_eq!(refused(Some(url)), named.as_bytes());
        for other in [None, Some("https://id.example.com/\"x"), Some("https://id.example.com/\\")] {
            assert_eq!(refused(other), br#"{"status":"invalid_token"}"#, "{other:?}");
        }
    }

    #[test]
    fn other_messages_are_malformed() {
        for message in [
            &b""[..],
            b"\x01\x01",
            b"n,,\x01\x01",
            b"n,,\x01auth=Bearer x\x01",
            b"n,,auth=Bearer x\x01\x01",
            b"n,\x01auth=Bearer x\x01\x01",
            b"n,u=x,\x01auth=Bearer x\x01\x01",
            b"n,,x\x01auth=Bearer x\x01\x01",
            b"p=tls-exporter,,\x01auth=Bearer x\x01\x01",
            b"n,,\x01auth=Basic x\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
            b"n,,\x01auth\x01\x01",
            b"n,,\x01auth=Bearer \xff\x01\x01",
        ] {
            assert_eq!(read(message), Err(Failure::MalformedRequest), "{}", message.escape_ascii());
        }
    }
}
