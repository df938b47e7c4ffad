//! The servers with which ours exchanges stanzas, and its demands on them.

/// The domains to federate with, unless a list says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// All servers that are not blocked.
    Open,
    /// Only servers on the list.
    Allow,
    /// No server.
    #[default]
    Closed,
}

/// A list of domains: `example.net` is that one, `*.example.net` those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains(pub Vec<Box<str>>);

impl Domains {
    /// True if the list holds the domain or a wildcard above it.
    pub fn has(&self, domain: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(parent) => domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
            None => **pattern == *domain,
        })
    }
}

/// The servers with which ours exchanges stanzas, and its demands on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The domains that are admitted.
    pub admission: Admission,
    /// The domains that [`Admission::Allow`] admits.
    pub allow: Domains,
    /// The domains that are never admitted.
    pub block: Domains,
    /// Streams are encrypted.
    pub require_tls: bool,
    /// The other server proves its domain by a valid certificate.
    pub require_certificate: bool,
    /// Domains with which it is the other way round than `require_tls` says ...
    pub tls_exceptions: Domains,
    /// ... and `require_certificate`.
    pub certificate_exceptions: Domains,
}

/// The demands on a stream with a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demands {
    /// TLS protects the stream.
    pub tls: bool,
    /// A valid certificate; dialback alone does not do.
    pub certificate: bool,
}

impl Policy {
    /// `None`: there is nothing to say to that domain.
    pub fn demands(&self, domain: &str) -> Option<Demands> {
        let is_admitted = match self.admission {
            Admission::Open => true,
            Admission::Allow => self.allow.has(domain),
            Admission::Closed => false,
        };
        let demands = Demands {
            tls: self.require_tls != self.tls_exceptions.has(domain),
            certificate: self.require_certificate != self.certificate_exceptions.has(domain),
        };
        (is_admitted && !self.block.has(domain)).then_some(demands)
    }

    /// True if no domain is admitted, whatever the lists say.
    pub fn is_closed(&self) -> bool {
        self.admission == Admission::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(list: &[&str]) -> Domains {
        Domains(list.iter().map(|name| Box::from(*name)).collect())
    }

    #[test]
    fn the_lists_decide_which_domains_are_admitted() {
        let open = Policy {
            admission: Admission::Open,
            block: domains(&["spam.test", "*.spam.test"]),
            ..Policy::default()
        };
        assert!(open.demands("example.net").is_some() && open.demands("notspam.test").is_some());
        assert!(open.demands("spam.test").is_none() && open.demands("a.b.spam.test").is_none());
        let allow = Policy {
            admission: Admission::Allow,
            allow: domains(&["a.test", "bad.test"]),
            block: domains(&["bad.test"]),
            ..Policy::default()
        };
        assert!(allow.demands("a.test").is_some());
        assert!(allow.demands("b.test").is_none() && allow.demands("bad.test").is_none());
        assert!(Policy { allow: domains(&["a.test"]), ..Policy::default() }.demands("a.test").is_none());
    }

    #[test]
    fn exceptions_turn_a_demand_round() {
        let policy = Policy {
            admission: Admission::Open,
            require_tls: true,
            tls_exceptions: domains(&["old.test"]),
            certificate_exceptions: domains(&["bank.test"]),
            ..Policy::default()
        };
        assert_eq!(policy.demands("a.test"), Some(Demands { tls: true, certificate: false }));
        assert_eq!(policy.demands("old.test"), Some(Demands { tls: false, certificate: false }));
        assert_eq!(policy.demands("bank.test"), Some(Demands { tls: true, certificate: true }));
    }
}
