//! The faults of a store, told apart by what a reader and an operator need to know.

use std::fmt;

use reqwest::{Response, StatusCode};

use crate::limits;

/// The reason why a request has failed. No text has a URL, which would have a signature in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// The store has no such object.
    Missing,
    /// The store does not answer, or cannot serve the request now.
    Away(String),
    /// The store refuses the request: the bucket, the keys, their rights or the region are wrong, or the object is not allowed.
    Refused(String),
    /// A file of this machine cannot be read.
    File(String),
    /// Too many objects are read at this moment.
    Busy,
}

impl fmt::Display for StorageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageFault::Missing => f.write_str("there is no such object"),
            StorageFault::Away(why) | StorageFault::Refused(why) | StorageFault::File(why) => {
                f.write_str(why)
            }
            StorageFault::Busy => f.write_str("too many objects are read"),
        }
    }
}

impl std::error::Error for StorageFault {}

/// The fault of a request that got no answer. The innermost cause, as the outer ones have the URL.
pub(crate) fn of_error(error: &reqwest::Error) -> StorageFault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let is_outermost = std::error::Error::source(error).is_none();
    StorageFault::Away(if is_outermost { "the connection failed".into() } else { cause.to_string() })
}

/// The fault that an answer tells. Its document has a code (Amazon S3 API Reference, "Error responses").
pub(crate) async fn of_response(mut response: Response, bucket: &str) -> StorageFault {
    let status = response.status();
    let mut document = Vec::new();
    let read = async {
        while document.len() < limits::ERROR_DOCUMENT
            && let Ok(Some(bytes)) = response.chunk().await
        {
            document.extend_from_slice(&bytes);
        }
    };
    // One limit for all of it, as it may trickle. The status is known, whatever becomes of the document.
    let _ = tokio::time::timeout(limits::ANSWER_TIME, read).await;
    of_answer(status, code_of(&document).as_deref(), bucket)
}

fn of_answer(status: StatusCode, code: Option<&str>, bucket: &str) -> StorageFault {
    let shown = code
        .map_or(format!("status {}", status.as_u16()), |code| format!("status {}, {code}", status.as_u16()));
    match (status.as_u16(), code) {
        (_, Some("NoSuchBucket")) => {
            StorageFault::Refused(format!("there is no bucket {bucket:?} ({shown}): check [s3] bucket"))
        }
        (404, _) => StorageFault::Missing,
        (_, Some("InvalidAccessKeyId" | "SignatureDoesNotMatch")) => StorageFault::Refused(format!(
            "the keys are wrong ({shown}): check [s3] access_key and secret_key"
        )),
        (_, Some("RequestTimeTooSkewed")) => {
            StorageFault::Refused(format!("the clocks differ ({shown}): set the clock of this machine"))
        }
        (401 | 403, _) => StorageFault::Refused(format!(
            "access to the bucket {bucket:?} is denied ({shown}): check the keys of [s3] and their rights"
        )),
        (300..=399, _) | (_, Some("AuthorizationHeaderMalformed" | "AuthorizationQueryParametersError")) => {
            StorageFault::Refused(format!(
                "the bucket is elsewhere ({shown}): check [s3] endpoint and region"
            ))
        }
        (429 | 500..=599, _) => StorageFault::Away(format!("the store cannot serve now ({shown})")),
        _ => StorageFault::Refused(format!("the request is refused ({shown})")),
    }
}

/// The text of the first `Code`, if it is one: it gets into log lines.
fn code_of(document: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(document);
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code = !code.is_empty()
        && code.len() <= limits::ERROR_CODE
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(status: u16, document: &str) -> StorageFault {
        let code = code_of(document.as_bytes());
        of_answer(StatusCode::from_u16(status).unwrap(), code.as_deref(), "files")
    }

    #[test]
    fn a_missing_bucket_is_no_missing_object() {
        let key = "<Error><Code>NoSuchKey</Code></Error>";
        assert_eq!(fault(404, key), StorageFault::Missing);
        assert_eq!(fault(404, ""), StorageFault::Missing, "some stores send no document");
        let bucket = fault(404, "<Error><Code>NoSuchBucket</Code></Error>");
        let StorageFault::Refused(text) = bucket else { panic!("{bucket:?}") };
        assert!(text.contains("\"files\"") && text.contains("[s3] bucket"), "{text}");
    }

    #[test]
    fn mistakes_of_the_configuration_are_named_and_a_bad_hour_is_not_one() {
        for (status, document, key) in [
            (403, "<Code>InvalidAccessKeyId</Code>", "access_key"),
            (403, "<Code>SignatureDoesNotMatch</Code>", "secret_key"),
            (403, "<Code>AccessDenied</Code>", "rights"),
            (401, "", "rights"),
            (301, "<Code>PermanentRedirect</Code>", "region"),
            (400, "<Code>AuthorizationQueryParametersError</Code>", "region"),
            (403, "<Code>RequestTimeTooSkewed</Code>", "clock"),
            (400, "<Code>EntityTooLarge</Code>", "EntityTooLarge"),
        ] {
            let found = fault(status, document);
            assert!(matches!(&found, StorageFault::Refused(text) if text.contains(key)), "{found:?}");
        }
        for status in [429, 500, 503] {
            assert!(matches!(fault(status, ""), StorageFault::Away(_)));
        }
    }

    #[test]
    fn a_code_is_one_word() {
        for document in ["<Code>a\nb</Code>", "<Code></Code>", "<Code>x", "<html>"] {
            assert_eq!(code_of(document.as_bytes()), None);
        }
        let long = format!("<Code>{}</Code>", "x".repeat(65));
        assert_eq!(code_of(long.as_bytes()), None);
    }
}
