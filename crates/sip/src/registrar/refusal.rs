//! Answers to a REGISTER that changes nothing.

use router::RegisterRefused;

use crate::wire::Reply;

/// Seconds after which a request may be tried again when the database could not be read or written: long enough for a
/// disk to be noticed, short enough for a phone not to be missed.
pub(crate) const RETRY_AFTER: u32 = 30;

/// A status, its reason, and at most one header that explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRefusal {
    /// The status of the response.
    pub status: u16,
    /// The reason phrase of the response.
    pub reason: &'static str,
    /// Name and value, such as `Min-Expires` of a 423 (RFC 3261 §10.3 step 7).
    pub header: Option<(&'static str, String)>,
}

impl RegisterRefusal {
    const fn new(status: u16, reason: &'static str) -> Self {
        RegisterRefusal { status, reason, header: None }
    }

    pub(super) const fn bad(reason: &'static str) -> Self {
        RegisterRefusal::new(400, reason)
    }

    pub(super) const fn too_many_contacts() -> Self {
        RegisterRefusal::new(403, "Too Many Contacts")
    }

    /// RFC 5627 §5.1.
    pub(super) const fn contact_is_gruu() -> Self {
        RegisterRefusal::new(403, "Contact Is A GRUU")
    }

    /// A binding must not lead to ourselves or out by a route.
    pub(crate) const fn contact_is_taken() -> Self {
        RegisterRefusal::new(403, "Contact Is A Route's Target Or This Server")
    }

    /// RFC 3327 §5.3: a registrar's policy may be not to take a Path.
    pub(super) const fn path_of_untrusted() -> Self {
        RegisterRefusal::new(403, "Path From An Untrusted Proxy")
    }

    /// RFC 5626 §11.6.
    pub(super) const fn first_hop_lacks_outbound() -> Self {
        RegisterRefusal::new(439, "First Hop Lacks Outbound Support")
    }

    pub(super) fn bad_extension(unsupported: String) -> Self {
        RegisterRefusal {
            header: Some(("Unsupported", unsupported)),
            ..RegisterRefusal::new(420, "Bad Extension")
        }
    }

    pub(super) fn interval_too_brief(min_expires: u32) -> Self {
        let header = Some(("Min-Expires", min_expires.to_string()));
        RegisterRefusal { header, ..RegisterRefusal::new(423, "Interval Too Brief") }
    }

    /// Adds the header that belongs to the status.
    pub fn write(&self, reply: &mut Reply) {
        if let Some((name, value)) = &self.header {
            reply.header(name, value.as_bytes());
        }
    }
}

impl From<RegisterRefused> for RegisterRefusal {
    fn from(refused: RegisterRefused) -> Self {
        match refused {
            // RFC 3261 §10.3 step 7 says that the request fails, but names no status. 500 is what §12.2.2
            // answers to a CSeq that goes back within a dialog; Kamailio answers 400 here.
            RegisterRefused::OutOfOrder => RegisterRefusal::new(500, "CSeq Out Of Order"),
            RegisterRefused::TooManyContacts => RegisterRefusal::too_many_contacts(),
            // RFC 3261 §21.5.4: the server is temporarily unable to process the request, and the client should try another one.
            RegisterRefused::StoreFailed => RegisterRefusal {
                header: Some(("Retry-After", RETRY_AFTER.to_string())),
                ..RegisterRefusal::new(503, "Registration Could Not Be Stored")
            },
        }
    }
}
