//! Parts of a message that nearly every layer asks for, found once when it is indexed and kept as places in its buffer.

use super::address::Address;
use super::params::Params;
use super::uri::{Scheme, Uri, UriError};
use super::via::Via;

/// A part of the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// The place of a part of the buffer. An empty part may stand elsewhere, as those do that are missing.
    pub(super) fn of(part: &[u8], bytes: &[u8]) -> Place {
        if part.is_empty() {
            return Place::default();
        }
        let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
        let offset = |at| u32::try_from(at).expect("a message is bounded by limits::MESSAGE_BYTES");
        Place { start: offset(start), end: offset(start + part.len()) }
    }

    pub(super) fn part(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// The parts of the topmost Via.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViaPlaces {
    value: Place,
    transport: Place,
    host: Place,
    port: Option<u16>,
    params: Place,
    branch: Option<Place>,
    rport: Option<Option<u16>>,
}

impl ViaPlaces {
    pub(super) fn of(value: &[u8], bytes: &[u8]) -> Option<ViaPlaces> {
        let via = Via::parse(value)?;
        let place = |part| Place::of(part, bytes);
        Some(ViaPlaces {
            value: place(value),
            transport: place(via.transport),
            host: place(via.host),
            port: via.port,
            params: place(via.params.0),
            branch: via.branch().map(place),
            rport: via.rport(),
        })
    }

    pub(super) fn via(self, bytes: &[u8]) -> Via<'_> {
        let params = Params(self.params.part(bytes));
        let (transport, host) = (self.transport.part(bytes), self.host.part(bytes));
        Via { transport, host, port: self.port, params, branch: self.branch(bytes), rport: self.rport }
    }

    pub(super) fn branch(self, bytes: &[u8]) -> Option<&[u8]> {
        self.branch.map(|place| place.part(bytes))
    }

    /// The value as written.
    pub(super) fn value(self, bytes: &[u8]) -> &[u8] {
        self.value.part(bytes)
    }
}

/// The parts of the Request-URI.
#[derive(Clone, Copy, Debug)]
pub(super) struct UriPlaces {
    scheme: Scheme,
    user: Option<Place>,
    password: Option<Place>,
    host: Place,
    port: Option<u16>,
    params: Place,
    headers: Place,
}

impl UriPlaces {
    pub(super) fn of(raw: &[u8], bytes: &[u8]) -> Result<UriPlaces, UriError> {
        let uri = Uri::parse(raw)?;
        let place = |part| Place::of(part, bytes);
        Ok(UriPlaces {
            scheme: uri.scheme,
            user: uri.user.map(place),
            password: uri.password.map(place),
            host: place(uri.host),
            port: uri.port,
            params: place(uri.params.0),
            headers: place(uri.headers),
        })
    }

    pub(super) fn uri<'a>(&self, raw: &'a [u8], bytes: &'a [u8]) -> Uri<'a> {
        Uri {
            raw,
            scheme: self.scheme,
            user: self.user.map(|place| place.part(bytes)),
            password: self.password.map(|place| place.part(bytes)),
            host: self.host.part(bytes),
            port: self.port,
            params: Params(self.params.part(bytes)),
            headers: self.headers.part(bytes),
        }
    }
}

/// The parts of From or To.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressPlaces {
    display: Place,
    uri: Place,
    params: Place,
    tag: Option<Place>,
}

impl AddressPlaces {
    pub(super) fn of(value: &[u8], bytes: &[u8]) -> Option<AddressPlaces> {
        let address = Address::parse(value)?;
        let place = |part| Place::of(part, bytes);
        Some(AddressPlaces {
            display: place(address.display),
            uri: place(address.uri),
            params: place(address.params.0),
            tag: address.tag().map(place),
        })
    }

    pub(super) fn address(self, bytes: &[u8]) -> Address<'_> {
        let params = Params(self.params.part(bytes));
        Address { display: self.display.part(bytes), uri: self.uri.part(bytes), params }
    }

    pub(super) fn tag(self, bytes: &[u8]) -> Option<&[u8]> {
        self.tag.map(|place| place.part(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Header, Message, Values};
    use super::*;

    proptest! {
        #[test]
        fn the_places_of_a_message_agree_with_its_headers(
            uri in "(sips?:|tel:|)[a-c%41]{0,3}(:x)?@?[a-z.\\[\\]:1]{0,6}(:50)?(;lr)?(\\?h=1)?",
            via in "SIP ?/ ?2.0/UDP [a-c.]{1,4}(:5)?(;branch=\"?[a-z;]{0,3}\"?)?(;rport)?(, SIP/2.0/TCP x)?",
            from in "(\"a;tag=no\" )?<?sip:a(;tag=inside)?>?(;tag=[a-z]{0,2})?",
        ) {
            let text = format!(
                "OPTIONS {uri} SIP/2.0\r\nf: {from}\r\nVia: {via}\r\nTo:{from} \r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\nbody"
            );
            if let Ok(message) = Message::parse(text.into()) {
                prop_assert_eq!(message.request_uri(), Uri::parse(message.uri()));
                let top = message.header(Header::Via).and_then(|line| Values::new(line).next());
                prop_assert_eq!(message.top_via(), top.and_then(Via::parse));
                prop_assert_eq!(message.top_via().map(|_| message.top_via_value()), top.and_then(Via::parse).map(|_| top));
                for (header, address, tag) in [
                    (Header::From, message.from(), message.from_tag()),
                    (Header::To, message.to(), message.to_tag()),
                ] {
                    prop_assert_eq!(address, message.header(header).and_then(Address::parse));
                    prop_assert_eq!(tag, address.and_then(|address| address.tag()));
                }
            }
        }
    }
}
