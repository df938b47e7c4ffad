//! Published presence documents: RFC 3903. They are kept as they came; only "open" is looked for.

use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;

use crate::interface::{Aor, Chat, Publish, PublishRefused, Published};
use crate::limits;
use crate::router::{Effect, Router};

/// Newest first.
#[derive(Default)]
pub(crate) struct Publications(Vec<Publication>);

struct Publication {
    etag: Box<str>,
    document: Arc<[u8]>,
    until: Instant,
}

impl Publications {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn documents(&self) -> Vec<Arc<[u8]>> {
        self.0.iter().map(|publication| publication.document.clone()).collect()
    }

    /// RFC 3863 §4.1.4: some tuple says `<basic>open</basic>`, under whatever prefix.
    pub(crate) fn open(&self) -> bool {
        self.0.iter().any(|publication| is_open(&publication.document))
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.0.iter().map(|publication| publication.until).min()
    }

    /// True when one was forgotten.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|publication| publication.until > now);
        self.0.len() < before
    }

    /// RFC 3903 §4 table 1: initial, refresh, modify, remove. Every success has a new entity tag (§6 step 6).
    fn handle(
        &mut self,
        now: Instant,
        publish: &Publish,
        etag: Box<str>,
    ) -> Result<Published, PublishRefused> {
        self.expire(now);
        if publish.document.as_ref().is_some_and(|document| document.len() > limits::PUBLICATION_BYTES) {
            return Err(PublishRefused::TooMany);
        }
        let place = publish.etag.as_ref().map(|etag| self.place(etag)).transpose()?;
        let Some(document) = publish.document.clone().or_else(|| Some(self.0[place?].document.clone()))
        else {
            // Neither tag nor document: nothing it could refresh.
            return Err(PublishRefused::ConditionalRequestFailed);
        };
        let longest = u32::try_from(limits::LONGEST_PUBLICATION.as_secs()).unwrap_or(u32::MAX);
        let expires = publish.expires.min(longest);
        let grows = place.is_none() && expires > 0;
        if grows && self.0.len() >= limits::PUBLICATIONS_PER_ADDRESS {
            return Err(PublishRefused::TooMany);
        }
        if let Some(place) = place {
            self.0.remove(place);
        }
        if expires > 0 {
            let until = now + Duration::from_secs(expires.into());
            self.0.insert(0, Publication { etag: etag.clone(), document, until });
        }
        Ok(Published { etag, expires })
    }

    fn place(&self, etag: &str) -> Result<usize, PublishRefused> {
        let place = self.0.iter().position(|publication| *publication.etag == *etag);
        place.ok_or(PublishRefused::ConditionalRequestFailed)
    }
}

fn is_open(document: &[u8]) -> bool {
    const BASIC: &[u8] = b"basic>";
    document
        .windows(BASIC.len())
        .enumerate()
        .filter(|(_, window)| *window == BASIC)
        .any(|(at, _)| document[at + BASIC.len()..].trim_ascii_start().starts_with(b"open"))
}

impl Router {
    pub(crate) fn handle_chat_changed(
        &mut self,
        now: Instant,
        aor: &Aor,
        chat: Option<Chat>,
        out: &mut Vec<Effect>,
    ) {
        if self.soft.has_room(aor) {
            match chat {
                Some(_) => self.soft.change(now, aor, |soft| soft.chat = chat),
                None => drop(self.soft.change_known(now, aor, |soft| soft.chat = None)),
            }
            self.tell_watchers(now, aor, out);
        }
    }

    pub(crate) fn publish(&mut self, now: Instant, publish: &Publish) -> Result<Published, PublishRefused> {
        if !self.soft.has_room(&publish.aor) {
            return Err(PublishRefused::TooMany);
        }
        self.last_etag += 1;
        // Unlike those of an earlier life of the process, which must answer 412 now.
        let parts = [publish.aor.as_bytes(), &now.as_micros().to_le_bytes(), &self.last_etag.to_le_bytes()];
        let etag = format!("{:016x}", self.keyed.hash_parts(&parts)).into_boxed_str();
        self.soft.change(now, &publish.aor, |soft| soft.publications.handle(now, publish, etag))
    }
}

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn basic_open_is_found_under_any_namespace_prefix() {
        assert!(is_open(b"<status><basic>open</basic></status>"));
        assert!(is_open(b"<p:basic>\r\n open</p:basic>"));
        assert!(!is_open(b"<basic>closed</basic>"));
        assert!(!is_open(b"basic>"));
        assert!(!is_open(b""));
    }
}
