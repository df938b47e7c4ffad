//! The handshake that begins a connection: the server's side of SOCKS5 (RFC 1928), as far as XEP-0065 §5.3.2 uses it.
//!
//! The client greets with its methods of authentication, and NO AUTHENTICATION REQUIRED is chosen; it requests CONNECT to a domain, which is the
//! hash of its transfer, and is told that it is connected. Pure: bytes in, replies out, however the bytes are cut.

use crate::StreamHash;
use crate::limits;

/// RFC 1928 §3: the version of both messages.
const VERSION: u8 = 5;
/// RFC 1928 §3: NO AUTHENTICATION REQUIRED. The hash is the secret of the two ends.
const NO_AUTHENTICATION: u8 = 0;
/// RFC 1928 §3: NO ACCEPTABLE METHODS.
const NO_METHOD: u8 = 0xff;
/// RFC 1928 §4: CONNECT; BIND and UDP ASSOCIATE are the others.
const CONNECT: u8 = 1;
/// RFC 1928 §4: the address is a domain, after a byte with its length.
const DOMAIN: u8 = 3;
/// The bytes of a request before the domain itself: version, command, a reserved byte, the type of the address, the length.
const HEAD: usize = 5;
/// RFC 1928 §6.
const SUCCEEDED: u8 = 0;

/// A reason to refuse a connection during its handshake, by the fault of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another protocol, or SOCKS4.
    Version,
    /// The client wants to authenticate.
    Method,
    /// Not CONNECT.
    Command,
    /// Not a domain.
    AddressType,
    /// The domain is no hash, or the port is not 0.
    Address,
    /// Both ends of that transfer are connected already.
    Taken,
}

impl Fault {
    /// The reply of RFC 1928 §6, before the connection is closed. `None`: another protocol gets none.
    fn reply_code(self) -> Option<u8> {
        match self {
            Fault::Version | Fault::Method => None,
            Fault::Command => Some(7),
            Fault::AddressType => Some(8),
            // "Connection not allowed by ruleset".
            Fault::Address | Fault::Taken => Some(2),
        }
    }

    /// The bytes to send before the connection is closed.
    pub(crate) fn put_reply(self, reply: &mut Vec<u8>) {
        match self.reply_code() {
            // §6: an address is part of each reply; that of a refusal says nothing.
            Some(code) => reply.extend([VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]),
            None if self == Fault::Method => reply.extend([VERSION, NO_METHOD]),
            None => {}
        }
    }

    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Version => "version",
            Fault::Method => "method",
            Fault::Command => "command",
            Fault::AddressType => "address_type",
            Fault::Address => "address",
            Fault::Taken => "taken",
        }
    }
}

/// The state of a handshake after some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes have to come.
    Incomplete,
    /// The client wants to be an end of that transfer. It is answered by [`Handshake::put_success`].
    Requested {
        /// The name of the transfer.
        hash: StreamHash,
        /// Bytes behind the request: the first of the transfer.
        early: Vec<u8>,
    },
    /// It is refused.
    Refused(Fault),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Greeting,
    Request,
}

/// The handshake of one connection.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    state: State,
    /// The message that is not complete: at most [`limits::MESSAGE`] bytes between two calls.
    buffer: Vec<u8>,
}

impl Handshake {
    /// Handles bytes of the client; replies are appended to `reply`. Once the progress is another than
    /// [`Progress::Incomplete`], the handshake is over.
    pub fn handle_bytes(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Progress {
        self.buffer.extend_from_slice(bytes);
        let progress = match self.state {
            State::Greeting => self.greeting(reply),
            State::Request => self.request(),
        };
        debug_assert!(progress != Progress::Incomplete || self.buffer.len() < limits::MESSAGE);
        if let Progress::Refused(fault) = progress {
            fault.put_reply(reply);
        }
        progress
    }

    /// RFC 1928 §3: the version, the number of methods, the methods.
    fn greeting(&mut self, reply: &mut Vec<u8>) -> Progress {
        let [version, rest @ ..] = &*self.buffer else { return Progress::Incomplete };
        if *version != VERSION {
            return Progress::Refused(Fault::Version);
        }
        let Some((methods, _)) =
            rest.split_first().and_then(|(count, rest)| rest.split_at_checked((*count).into()))
        else {
            return Progress::Incomplete;
        };
        if !methods.contains(&NO_AUTHENTICATION) {
            return Progress::Refused(Fault::Method);
        }
        let length = 2 + methods.len();
        self.buffer.drain(..length);
        self.state = State::Request;
        reply.extend([VERSION, NO_AUTHENTICATION]);
        // The request may have come with it.
        self.request()
    }

    /// RFC 1928 §4: the version, the command, a reserved byte, the address and the port.
    fn request(&mut self) -> Progress {
        // Each byte is looked at when it is there: a client that is wrong is not waited for.
        for (place, expected, fault) in
            [(0, VERSION, Fault::Version), (1, CONNECT, Fault::Command), (3, DOMAIN, Fault::AddressType)]
        {
            match self.buffer.get(place) {
                None => return Progress::Incomplete,
                Some(byte) if *byte != expected => return Progress::Refused(fault),
                Some(_) => {}
            }
        }
        let Some(length) = self.buffer.get(HEAD - 1).map(|length| usize::from(*length)) else {
            return Progress::Incomplete;
        };
        let Some(([high, low], domain)) = self
            .buffer
            .get(HEAD + length..HEAD + length + 2)
            .and_then(|port| port.first_chunk())
            .zip(self.buffer.get(HEAD..HEAD + length))
        else {
            return Progress::Incomplete;
        };
        // XEP-0065 §5.3.2: "DST.PORT = 0".
        let is_zero = (*high, *low) == (0, 0);
        match StreamHash::parse(domain).filter(|_| is_zero) {
            Some(hash) => Progress::Requested { hash, early: self.buffer.split_off(HEAD + length + 2) },
            None => Progress::Refused(Fault::Address),
        }
    }

    /// The reply to a request that is granted: "the BND.ADDR and BND.PORT values MUST be the same as the DST.ADDR and DST.PORT" (XEP-0065
    /// §5.3.2).
    pub fn put_success(hash: StreamHash, reply: &mut Vec<u8>) {
        let hex = hash.to_hex();
        reply.extend([VERSION, SUCCEEDED, 0, DOMAIN, StreamHash::DIGITS]);
        reply.extend(hex.as_bytes());
        reply.extend([0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash() -> StreamHash {
        StreamHash::of("sid", "alice@example.org/a", "bob@example.org/b")
    }

    fn connect(domain: &[u8], port: [u8; 2]) -> Vec<u8> {
        let mut request = vec![5, 1, 0, 3, u8::try_from(domain.len()).unwrap()];
        request.extend(domain);
        request.extend(port);
        request
    }

    /// The replies and the outcome of bytes that come in these pieces.
    fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Progress) {
        let (mut handshake, mut reply) = (Handshake::default(), Vec::new());
        for piece in pieces {
            let progress = handshake.handle_bytes(piece, &mut reply);
            if progress != Progress::Incomplete {
                return (reply, progress);
            }
        }
        (reply, Progress::Incomplete)
    }

    fn all(bytes: &[u8]) -> (Vec<u8>, Progress) {
        feed([bytes])
    }

    #[test]
    fn a_client_without_authentication_names_its_transfer() {
        let bytes = [&[5, 2, 2, 0][..], &connect(hash().to_hex().as_bytes(), [0, 0]), b"early"].concat();
        let (reply, progress) = all(&bytes);
        assert_eq!(reply, [5, 0]);
        assert_eq!(progress, Progress::Requested { hash: hash(), early: b"early".to_vec() });
        let mut success = Vec::new();
        Handshake::put_success(hash(), &mut success);
        // RFC 1928 §6 with XEP-0065 §5.3.2: the request's own address.
        assert_eq!(success, [&[5, 0, 0, 3, 40][..], hash().to_hex().as_bytes(), &[0, 0]].concat());
    }

    #[test]
    fn others_are_refused_as_soon_as_it_is_known() {
        let hex = hash().to_hex();
        let greeted = |request: &[u8]| [&[5, 1, 0][..], request].concat();
        for (bytes, fault, reply) in [
            (vec![4], Fault::Version, &[][..]),
            (b"GET".to_vec(), Fault::Version, &[]),
            (vec![5, 0], Fault::Method, &[5, 0xff]),
            (vec![5, 2, 1, 2], Fault::Method, &[5, 0xff]),
            (greeted(&[4]), Fault::Version, &[5, 0]),
            (greeted(&[5, 2]), Fault::Command, &[5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]),
            (greeted(&[5, 1, 0, 1]), Fault::AddressType, &[5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
            (
                greeted(&connect(b"example.org", [0, 0])),
                Fault::Address,
                &[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
            (greeted(&connect(b"", [0, 0])), Fault::Address, &[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0]),
            (
                greeted(&connect(hex.as_bytes(), [0, 80])),
                Fault::Address,
                &[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
        ] {
            assert_eq!(all(&bytes), (reply.to_vec(), Progress::Refused(fault)), "{bytes:?}");
        }
    }

    #[test]
    fn the_longest_messages_fit_and_a_part_of_them_waits() {
        let greeting = [&[5, 255][..], &[0; 255]].concat();
        let request = connect(&[b'0'; 255], [0, 0]);
        assert_eq!(request.len(), limits::MESSAGE);
        let bytes = [greeting, request].concat();
        assert_eq!(all(&bytes[..bytes.len() - 1]), (vec![5, 0], Progress::Incomplete));
        assert_eq!(all(&bytes).1, Progress::Refused(Fault::Address));
    }

    proptest! {
        /// How the network cuts the bytes changes neither the replies nor the outcome; only the bytes behind the request may come later.
        #[test]
        fn pieces_do_not_matter(
            valid: bool,
            noise in prop::collection::vec(prop_oneof![Just(5_u8), Just(1), Just(0), Just(3), any::<u8>()], 0..600),
            cuts in prop::collection::vec(1_usize..40, 1..80),
        ) {
            let mut bytes = noise;
            if valid {
                bytes = [&[5, 1, 0][..], &connect(hash().to_hex().as_bytes(), [0, 0]), &bytes].concat();
            }
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, left) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = left;
            }
            let (whole, cut) = (all(&bytes), feed(pieces));
            prop_assert_eq!(&whole.0, &cut.0);
            match (whole.1, cut.1) {
                (Progress::Requested { hash: a, early: all }, Progress::Requested { hash: b, early }) => {
                    prop_assert_eq!(a, b);
                    prop_assert!(all.starts_with(&early));
                }
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}
