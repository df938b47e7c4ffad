//! Writing: lines in the order of RFC 8866 §5, each ended by CR LF.

use std::fmt;

use super::{Description, Media};

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = &self.origin;
        write!(f, "v=0\r\no={} {} {} {}\r\n", origin.user, origin.id, origin.version, origin.host)?;
        write!(f, "s={}\r\n", if self.name.is_empty() { "-" } else { &self.name })?;
        if let Some(host) = &self.connection {
            write!(f, "c={host}\r\n")?;
        }
        f.write_str("t=0 0\r\n")?;
        if let Some(direction) = self.direction {
            write!(f, "a={}\r\n", direction.name())?;
        }
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} {} {}", self.kind.name(), self.port, self.protocol)?;
        for format in &self.formats {
            write!(f, " {format}")?;
        }
        f.write_str("\r\n")?;
        if let Some(host) = &self.connection {
            write!(f, "c={host}\r\n")?;
        }
        for map in &self.rtpmaps {
            write!(f, "a=rtpmap:{} {}/{}", map.number, map.codec.name(), map.clock_rate)?;
            if map.channels > 1 { write!(f, "/{}\r\n", map.channels)? } else { f.write_str("\r\n")? }
        }
        for (number, value) in &self.fmtps {
            write!(f, "a=fmtp:{number} {value}\r\n")?;
        }
        if let Some(ptime) = self.ptime {
            write!(f, "a=ptime:{ptime}\r\n")?;
        }
        if let Some(maxptime) = self.maxptime {
            write!(f, "a=maxptime:{maxptime}\r\n")?;
        }
        for crypto in &self.cryptos {
            write!(f, "a={crypto}\r\n")?;
        }
        if let Some((port, _)) = self.rtcp {
            write!(f, "a=rtcp:{port}\r\n")?;
        }
        if self.rtcp_mux {
            f.write_str("a=rtcp-mux\r\n")?;
        }
        match self.direction {
            Some(direction) => write!(f, "a={}\r\n", direction.name()),
            None => Ok(()),
        }
    }
}
