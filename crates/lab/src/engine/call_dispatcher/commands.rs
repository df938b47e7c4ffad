//! Commands between instances (3PCC): those of our calls go out, those of other instances go to the calls of their Call-IDs.

use lab_sip::call::TransportFault;
use lab_sip::scenario::model::Role;
use mio::event::Event;
use stdx::slab::Key;
use stdx::time::Instant;

use super::CallDispatcher;
use crate::engine::shard_hub::RunPhase;
use crate::engine::twin;

impl CallDispatcher {
    /// `<sendCmd>`.
    /// Bytes `start..end` of the turn's output, to `peer` or, without a name, to the other half of the pair.
    pub(in crate::engine) fn command(&mut self, key: Key, start: usize, end: usize, peer: Option<&str>) {
        let sent = self.twins.send(&self.out.bytes[start..end], peer, self.poll.registry());
        if sent.is_err() {
            self.faults.push((key, TransportFault::CommandNotSent));
        }
    }

    /// A connection to another instance is readable or writable.
    pub(in crate::engine) fn handle_twin_event(&mut self, key: Key, event: &Event, now: Instant) {
        // Key 0 is the listener: the slab never gives it to a connection.
        if key == Key::from_u64(0) {
            // An accept that fails leaves the instance without a twin: said in the log, and the run goes on.
            if let Err(error) = self.twins.accept(self.poll.registry()) {
                self.error(now, format!("a twin could not connect: {error}"));
            }
            return;
        }
        // Commands that came before the end are still carried out.
        let Some((commands, is_alive)) = self.twins.handle_ready(key, event.is_writable()) else { return };
        for command in commands {
            self.handle_command(&command, now);
        }
        if !is_alive {
            self.twins.remove(key);
            // As SIPp: without its twin an instance starts no more calls.
            self.hub.advance(RunPhase::Soft);
        }
    }

    /// For the call of its Call-ID; an instance that waits for commands begins one.
    fn handle_command(&mut self, command: &[u8], now: Instant) {
        let Some(call_id) = twin::line(command, b"call-id:") else {
            return self.error(now, "a command without Call-ID was dropped".to_owned());
        };
        let peer = twin::line(command, b"from:").and_then(|name| std::str::from_utf8(name).ok());
        let hash = self.hub.keyed.hash(call_id);
        let known = self.calls.find(hash, call_id);
        // Controller B starts its calls when A commands it; every other instance has started them itself.
        let waits = self.envs.main.scenario.role == Role::ControllerB;
        let key = match known {
            Some(key) => Some(key),
            None if waits => self.open_commanded(call_id, now),
            None => None,
        };
        match key {
            Some(key) => self.enter(key, now, |call, ctx| call.handle_command(ctx, command, peer)),
            None => self.error(now, format!("no call for command {}", String::from_utf8_lossy(command))),
        }
    }
}
