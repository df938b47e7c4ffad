//! The POSH documents of other domains, as one shard knows them: fetched once for all streams that wait, remembered for
//! a bounded time (RFC 7711 §6), and bounded in number.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use stdx::Instant;

use super::super::Effect;
use super::document::{CertificateHashes, PoshDocument, PoshFault, PoshFingerprints, url_of};
use crate::limits;

/// A document that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoshFetch {
    /// The number of the lookup.
    pub id: u64,
    /// The domain whose certificate is to be proved.
    pub domain: Box<str>,
    /// The address of the document: `https`.
    pub url: Box<str>,
    /// The number of the stream that asked first.
    pub number: u64,
}

/// The reason why there is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoshFailure {
    /// The web server has none, or could not be asked: the reason, for the log. The failure is remembered.
    Failed(Box<str>),
    /// The fetch was not begun: the source of its stream has caused too many, or the stream has ended. Other streams that wait for it go on with a
    /// fetch of theirs.
    Busy,
}

/// A question of a stream.
#[derive(Debug)]
pub(in super::super) struct LookupRequest<'a> {
    pub(in super::super) domain: &'a str,
    /// The stream that waits for the answer.
    pub(in super::super) number: u64,
    /// This server has opened the stream.
    pub(in super::super) is_ours: bool,
    /// The certificate of its peer.
    pub(in super::super) presented: &'a CertificateHashes,
}

/// The reply to a question.
#[derive(Debug)]
pub(in super::super) enum LookupReply {
    /// The domain's fingerprints; `None`: it vouches for no certificate, or is not asked now.
    Known(Option<Arc<PoshFingerprints>>),
    /// The answer comes as a [`FinishedLookup`]; the fetch began then.
    Later { since: Instant },
}

/// A lookup that has ended.
#[derive(Debug)]
pub(in super::super) struct FinishedLookup {
    pub(in super::super) domain: Box<str>,
    /// The streams that wait for it.
    pub(in super::super) waiting: Vec<u64>,
    pub(in super::super) fingerprints: Option<Arc<PoshFingerprints>>,
}

/// Fingerprints that were known before the fetch that goes on.
#[derive(Clone, Debug)]
struct EarlierDocument {
    fingerprints: Arc<PoshFingerprints>,
    since: Instant,
    until: Instant,
}

impl EarlierDocument {
    /// As it was, fetched or looked for at that time.
    fn known(&self, since: Instant) -> Entry {
        Entry::Known { since, fingerprints: Some(Arc::clone(&self.fingerprints)) }
    }
}

#[derive(Debug)]
enum Entry {
    Fetching {
        id: u64,
        number: u64,
        since: Instant,
        /// The lifetime of the reference that led to the address that is being fetched.
        reference: Option<std::time::Duration>,
        earlier: Option<EarlierDocument>,
        waiting: Vec<u64>,
    },
    Known {
        since: Instant,
        fingerprints: Option<Arc<PoshFingerprints>>,
    },
}

#[derive(Debug, Default)]
pub(in super::super) struct PoshLookups {
    /// Each with the time of its end.
    entries: HashMap<Box<str>, (Instant, Entry)>,
    /// The same times, in order.
    ends: BTreeSet<(Instant, Box<str>)>,
    /// Entries that are being fetched.
    fetching: usize,
    last: u64,
    /// Lookups begun since the start.
    pub(in super::super) begun: u64,
    /// Lookups that ended without fingerprints.
    pub(in super::super) failed: u64,
}

impl PoshLookups {
    pub(in super::super) fn deadline(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(in super::super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn remove(&mut self, domain: &str) -> Option<(Instant, Entry)> {
        let (domain, (until, entry)) = self.entries.remove_entry(domain)?;
        self.ends.remove(&(until, domain));
        self.fetching -= usize::from(matches!(entry, Entry::Fetching { .. }));
        Some((until, entry))
    }

    fn insert(&mut self, domain: &str, until: Instant, entry: Entry) {
        self.fetching += usize::from(matches!(entry, Entry::Fetching { .. }));
        self.ends.insert((until, domain.into()));
        self.entries.insert(domain.into(), (until, entry));
    }

    /// Answers from memory, or begins a fetch.
    pub(in super::super) fn look_up(
        &mut self,
        now: Instant,
        request: &LookupRequest<'_>,
        out: &mut Vec<Effect>,
    ) -> LookupReply {
        let mut earlier = None;
        match self.entries.get_mut(request.domain) {
            Some((_, Entry::Fetching { earlier: Some(EarlierDocument { fingerprints, .. }), .. }))
                if fingerprints.has(request.presented) =>
            {
                return LookupReply::Known(Some(Arc::clone(fingerprints)));
            }
            Some((_, Entry::Fetching { since, waiting, .. })) => {
                waiting.push(request.number);
                return LookupReply::Later { since: *since };
            }
            Some((until, Entry::Known { since, fingerprints })) if *until > now => {
                let is_other = fingerprints.as_ref().is_some_and(|known| !known.has(request.presented));
                // A new certificate may have come since.
                if !(is_other && now.since(*since) >= limits::POSH_FAILED) {
                    return LookupReply::Known(fingerprints.clone());
                }
                let (since, until) = (*since, *until);
                earlier =
                    fingerprints.clone().map(|fingerprints| EarlierDocument { fingerprints, since, until });
            }
            Some((_, Entry::Known { .. })) | None => {}
        }
        let most = if request.is_ours { limits::POSH_FETCHES } else { limits::POSH_FETCHES_OF_CALLERS };
        let Some(url) =
            url_of(request.domain).filter(|_| self.fetching < most && self.make_room(request.domain))
        else {
            return LookupReply::Known(None);
        };
        self.remove(request.domain);
        self.begun += 1;
        let (number, waiting) = (request.number, vec![request.number]);
        let entry = Entry::Fetching { id: 0, number, since: now, reference: None, earlier, waiting };
        self.fetch(request.domain, &url, now + limits::POSH_TIME, entry, out);
        LookupReply::Later { since: now }
    }

    /// True if there is room for the domain. The document that ends first makes room.
    fn make_room(&mut self, domain: &str) -> bool {
        if self.entries.len() < limits::POSH_DOMAINS || self.entries.contains_key(domain) {
            return true;
        }
        let is_known = |domain: &str| matches!(self.entries.get(domain), Some((_, Entry::Known { .. })));
        let first = self.ends.iter().map(|(_, domain)| domain).find(|domain| is_known(domain)).cloned();
        first.is_some_and(|first| self.remove(&first).is_some())
    }

    fn fetch(&mut self, domain: &str, url: &str, until: Instant, mut entry: Entry, out: &mut Vec<Effect>) {
        if let Entry::Fetching { id, number, .. } = &mut entry {
            self.last += 1;
            *id = self.last;
            let fetch = PoshFetch { id: *id, domain: domain.into(), url: url.into(), number: *number };
            out.push(Effect::FetchPosh(fetch));
        }
        self.insert(domain, until, entry);
    }

    /// Takes the body of a document, or the reason why there is none. `None`: nothing waits for it, or a reference is followed.
    pub(in super::super) fn handle_fetched(
        &mut self,
        now: Instant,
        fetch: &PoshFetch,
        result: Result<Vec<u8>, PoshFailure>,
        out: &mut Vec<Effect>,
    ) -> Option<FinishedLookup> {
        // The answer to a fetch that took too long comes after its end.
        let is_current = matches!(self.entries.get(&fetch.domain), Some((_, Entry::Fetching { id, .. })) if *id == fetch.id);
        if !is_current {
            return None;
        }
        let (until, entry) = self.remove(&fetch.domain)?;
        let document = match result {
            Ok(body) => PoshDocument::read(&body).map_err(|fault| fault.as_str().into()),
            Err(PoshFailure::Failed(why)) => Err(why),
            Err(PoshFailure::Busy) => return self.refuse(now, fetch, until, entry, out),
        };
        let Entry::Fetching { number, since, reference, earlier, waiting, .. } = entry else { return None };
        let domain = fetch.domain.clone();
        let why = match (document, reference) {
            (Ok(PoshDocument::Fingerprints(known)), reference) => {
                // RFC 7711 §6: the shorter of both times counts.
                let expires = known.expires.min(reference.unwrap_or(known.expires));
                let fingerprints = Some(Arc::new(known));
                self.insert(
                    &domain,
                    now + expires,
                    Entry::Known { since: now, fingerprints: fingerprints.clone() },
                );
                return Some(FinishedLookup { domain, waiting, fingerprints });
            }
            (Ok(PoshDocument::Reference { url, expires }), None) => {
                let reference = Some(expires);
                let entry = Entry::Fetching { id: 0, number, since, reference, earlier, waiting };
                self.fetch(&domain, &url, until, entry, out);
                return None;
            }
            // RFC 7711 §3.2: a reference does not lead to a reference.
            (Ok(PoshDocument::Reference { .. }), Some(_)) => PoshFault::Nested.as_str().into(),
            (Err(why), _) => why,
        };
        Some(self.fail(now, domain, (earlier, waiting), why, out))
    }

    /// Ends the lookup for the stream whose source has caused too many, and fetches for the next one that waits: a stranger takes no proof from
    /// others, nor the look at a new certificate.
    fn refuse(
        &mut self,
        now: Instant,
        fetch: &PoshFetch,
        until: Instant,
        entry: Entry,
        out: &mut Vec<Effect>,
    ) -> Option<FinishedLookup> {
        let Entry::Fetching { number, since, reference, earlier, waiting, .. } = entry else { return None };
        let (refused, waiting): (Vec<u64>, Vec<u64>) =
            waiting.into_iter().partition(|other| *other == number);
        let domain = fetch.domain.clone();
        let earlier = earlier.filter(|earlier| earlier.until > now);
        let fingerprints = earlier.as_ref().map(|earlier| Arc::clone(&earlier.fingerprints));
        if let Some(&number) = waiting.first() {
            let entry = Entry::Fetching { id: 0, number, since, reference, earlier, waiting };
            self.fetch(&domain, &fetch.url, until, entry, out);
        } else {
            self.failed += 1;
            if let Some(earlier) = earlier {
                self.insert(&domain, earlier.until, earlier.known(earlier.since));
            }
        }
        out.push(Effect::PoshFailed {
            domain: domain.clone(),
            why: "too many lookups for one source".into(),
        });
        Some(FinishedLookup { domain, waiting: refused, fingerprints })
    }

    /// Remembers that there is no document, or what was known before.
    fn fail(
        &mut self,
        now: Instant,
        domain: Box<str>,
        (earlier, waiting): (Option<EarlierDocument>, Vec<u64>),
        why: Box<str>,
        out: &mut Vec<Effect>,
    ) -> FinishedLookup {
        self.failed += 1;
        let fingerprints = match earlier.filter(|earlier| earlier.until > now) {
            Some(earlier) => {
                self.insert(&domain, earlier.until, earlier.known(now));
                Some(earlier.fingerprints)
            }
            None => {
                let known = Entry::Known { since: now, fingerprints: None };
                self.insert(&domain, now + limits::POSH_FAILED, known);
                None
            }
        };
        out.push(Effect::PoshFailed { domain: domain.clone(), why });
        FinishedLookup { domain, waiting, fingerprints }
    }

    /// Forgets what has ended, and gives up fetches that take too long.
    pub(in super::super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) -> Vec<FinishedLookup> {
        let mut finished = Vec::new();
        while let Some((_, domain)) = self.ends.first().filter(|(at, _)| *at <= now).cloned() {
            if let Some((_, Entry::Fetching { earlier, waiting, .. })) = self.remove(&domain) {
                let why = "the web server did not answer in time".into();
                finished.push(self.fail(now, domain, (earlier, waiting), why, out));
            }
        }
        finished
    }
}
