//! Listeners of two shards at one address, as of two processes: connections go to the one that has room.

use std::net::SocketAddr;

use net::NetSettings;
use sip::transport::Transport::Tcp;
use tokio::net::TcpStream;

use super::*;

const MOST: usize = 8;

/// Two shards at one address, and the connections of each, by the client's address.
struct Group {
    address: SocketAddr,
    shards: [Shard; 2],
    open: [Vec<TcpStream>; 2],
}

impl Group {
    fn new() -> Group {
        let settings = || NetSettings { max_flows: MOST, shares_ports: true, ..NetSettings::default() };
        let mut shards = [Shard::numbered(0, settings()), Shard::numbered(1, settings())];
        let address = shards[0].bind(Tcp, "127.0.0.1:0").address;
        shards[1].bind(Tcp, &address.to_string());
        Group { address, shards, open: [Vec::new(), Vec::new()] }
    }

    /// Opens a connection; returns the shard that has it.
    async fn connect(&mut self) -> usize {
        let [first, second] = &mut self.shards;
        let (stream, place) = loop {
            // Refused for the moment between two listeners.
            let Ok(stream) = TcpStream::connect(self.address).await else {
                let _ = timeout(Duration::from_millis(50), first.turn()).await;
                continue;
            };
            let own = stream.local_addr().unwrap();
            let (source, place) = tokio::select! {
                source = first.opened() => (source, 0),
                source = second.opened() => (source, 1),
            };
            assert_eq!(source.remote, own);
            break (stream, place);
        };
        self.open[place].push(stream);
        place
    }
}

#[test]
fn a_listener_without_room_leaves_the_connections_to_the_other_and_comes_back() {
    run(async {
        let mut group = Group::new();
        for _ in 0..2 * MOST {
            group.connect().await;
        }
        let refused: Vec<u64> = group.shards.iter().map(|shard| shard.io.counters().flows_refused).collect();
        assert_eq!((group.open.each_ref().map(Vec::len), &*refused), ([MOST; 2], &[0, 0][..]));
        group.open[0].drain(..2);
        group.shards[0].closed().await;
        group.shards[0].closed().await;
        assert_eq!(group.connect().await, 0, "the other one has no room");
    });
}
