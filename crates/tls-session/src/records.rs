//! One look at the records that have come, for both sides of a connection.

use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};

/// The result of processing what has come.
pub(crate) struct Processed {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// The peer has said that it sends no more (RFC 8446 §6.1).
    pub(crate) is_closed: bool,
    pub(crate) result: Result<(), Error>,
}

/// A connection of rustls as the server or as the client.
pub(crate) trait Side {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Records are to be encoded.
    fn has_records(&self) -> bool;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_records(&self) -> bool {
        self.wants_write()
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_records(&self) -> bool {
        self.wants_write()
    }
}

/// Decrypts what has come: plain bytes to `heard`, records to be sent, as of a handshake or an alert, behind `outgoing`.
pub(crate) fn process<C: Side>(
    connection: &mut C,
    incoming: &mut [u8],
    mut heard: impl FnMut(&[u8]),
    outgoing: &mut Vec<u8>,
) -> Processed {
    let mut done = Processed { consumed: 0, is_closed: false, result: Ok(()) };
    loop {
        let UnbufferedStatus { discard, state } = connection.process(&mut incoming[done.consumed..]);
        let is_over = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    heard(record.payload);
                }
                false
            }
            Ok(ConnectionState::EncodeTlsData(data)) => {
                encode(data, outgoing);
                false
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                false
            }
            Ok(ConnectionState::PeerClosed) => {
                done.is_closed = true;
                false
            }
            Err(error) => {
                done.result = Err(error);
                false
            }
            // Early data is not enabled: `max_early_data_size` is 0.
            Ok(_) => true,
        };
        done.consumed += discard;
        // After a fault the alert is still to be encoded, and nothing more may be decrypted.
        if is_over || (done.result.is_err() && !connection.has_records()) {
            return done;
        }
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, outgoing: &mut Vec<u8>) {
    // An empty buffer is always too small, and the error says by how much.
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = data.encode(&mut [])
    {
        let start = outgoing.len();
        outgoing.resize(start + required_size, 0);
        let written = data.encode(&mut outgoing[start..]).unwrap_or(0);
        outgoing.truncate(start + written);
    }
}

/// Has the connection write application data, if its state allows that now. `incoming` are the bytes that wait for the rest of
/// their record: rustls knows them by their places.
pub(crate) fn write<C: Side>(
    connection: &mut C,
    incoming: &mut [u8],
    outgoing: &mut Vec<u8>,
    mut work: impl FnMut(&mut WriteTraffic<'_, C::Data>, &mut [u8]) -> Result<usize, EncryptError>,
) -> bool {
    loop {
        match connection.process(incoming).state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, outgoing),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            // All else that has come was processed when it came.
            Ok(ConnectionState::PeerClosed) => {}
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let start = outgoing.len();
                let size = match work(&mut traffic, &mut []) {
                    Ok(written) => return written == 0,
                    Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                        required_size
                    }
                    Err(EncryptError::EncryptExhausted) => return false,
                };
                outgoing.resize(start + size, 0);
                let written = work(&mut traffic, &mut outgoing[start..]);
                outgoing.truncate(start + *written.as_ref().unwrap_or(&0));
                return written.is_ok();
            }
            Ok(_) | Err(_) => return false,
        }
    }
}
