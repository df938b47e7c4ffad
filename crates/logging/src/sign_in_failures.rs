//! Sign-ins that failed, at all services of the node: a line of the log each, and counters.
//!
//! The lines are for programs that shut addresses out (`docs/fail2ban`): the address stands before all that a peer has
//! written, and an account's name is quoted with its quotes and line breaks escaped, so no name looks like a line or an
//! address of its own. Lines are bounded by source and in all; the rest is counted and told as a number.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stdx::Instant;
use stdx::attempts::Cause;
use stdx::rate::{Limiter, TokenBucket};
use stdx::source::SourcePrefix;

use crate::Identity;
use crate::limits;

/// A service that accounts, components or other servers sign in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Phones, by SIP.
    Sip,
    /// Chat clients.
    Xmpp,
    /// Components of chat (XEP-0114).
    Components,
    /// Other servers, by dialback or certificate.
    Servers,
    /// Clients of the REST interface.
    Rest,
    /// Operators in browsers.
    Console,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 6] =
        [Service::Sip, Service::Xmpp, Service::Components, Service::Servers, Service::Rest, Service::Console];

    /// The name in lines and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Service::Sip => "sip",
            Service::Xmpp => "xmpp",
            Service::Components => "components",
            Service::Servers => "servers",
            Service::Rest => "rest",
            Service::Console => "console",
        }
    }
}

/// One failed sign-in.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The service.
    pub service: Service,
    /// `udp`, `tls`, `bosh`, ...
    pub transport: &'a str,
    /// The peer's address.
    pub address: IpAddr,
    /// As the peer has named it; empty: not at all.
    pub account: &'a str,
    /// The reason of the refusal.
    pub cause: Cause,
}

/// The failures of the node; one for all shards.
pub struct SignInFailures {
    counts: [[AtomicU64; Cause::ALL.len()]; Service::ALL.len()],
    lines: Mutex<Lines>,
}

struct Lines {
    all: TokenBucket,
    by_source: Limiter<SourcePrefix>,
    suppressed: u64,
}

impl Default for SignInFailures {
    fn default() -> SignInFailures {
        SignInFailures {
            counts: Default::default(),
            lines: Mutex::new(Lines {
                all: TokenBucket::new(limits::SIGN_IN_LINES),
                by_source: Limiter::new(limits::SIGN_IN_LINES_BY_SOURCE),
                suppressed: 0,
            }),
        }
    }
}

impl SignInFailures {
    /// Counts the failure and writes its line, unless there were too many.
    pub fn note(&self, now: Instant, failure: &Failure<'_>) {
        self.counts[failure.service as usize][failure.cause as usize].fetch_add(1, Ordering::Relaxed);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let may =
            lines.by_source.allow(now, failure.address.into()).is_pass() && lines.all.take(now).is_pass();
        if !may {
            lines.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut lines.suppressed);
        drop(lines);
        write_suppressed(suppressed);
        write(failure);
    }

    /// Tells how many lines were left out since the last one.
    pub fn flush(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let suppressed = std::mem::take(&mut lines.suppressed);
        drop(lines);
        write_suppressed(suppressed);
    }

    /// The number of failures by service and cause.
    pub fn counts(&self) -> impl Iterator<Item = (Service, Cause, u64)> + '_ {
        let of = |service: Service| Cause::ALL.map(|cause| (service, cause));
        let count = |(service, cause): (Service, Cause)| {
            (service, cause, self.counts[service as usize][cause as usize].load(Ordering::Relaxed))
        };
        Service::ALL.into_iter().flat_map(of).map(count)
    }
}

impl fmt::Debug for SignInFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInFailures")
    }
}

/// The target and the order of the fields are what `docs/fail2ban` reads.
fn write(failure: &Failure<'_>) {
    let Failure { service, transport, address, account, cause } = *failure;
    let account = Identity(account).to_string();
    tracing::warn!(
        target: "belfry::sign_in",
        %address,
        service = %service.name(),
        %transport,
        cause = %cause.name(),
        // A string, so that it is quoted and escaped.
        account = &*account,
        "sign-in failed"
    );
}

fn write_suppressed(count: u64) {
    if count > 0 {
        tracing::warn!(target: "belfry::sign_in", suppressed = count, "more sign-ins failed");
    }
}
