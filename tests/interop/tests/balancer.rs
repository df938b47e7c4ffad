//! A farm behind a balancer without affinity: each packet goes to the next node, in a network that the test makes.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use interop::{Farm, Namespace, Nats, NatsRelease, Network, Sipp, VIRTUAL_ADDRESS, wait_until};

const CALLS: u32 = 200;

/// INVITE, ACK and BYE of the caller; 180, 200 and 200 of the callee. Each goes to the virtual address.
const PACKETS: u64 = 6;

/// RFC 3261 §16.11: the packets of a transaction may reach any of several proxies only if each of them can work on all.
#[test]
fn every_packet_of_a_call_goes_to_the_next_node() {
    let network = Network::new();
    let (phones, council) = (network.host(), network.host());
    let hosts: Vec<Arc<Namespace>> = (0..3).map(|_| network.host()).collect();
    let nats = Nats::on_host(NatsRelease::Debian, &council);
    let callee = Sipp::answering_on(&phones, "-uas", CALLS);
    let target = SocketAddrV4::new(phones.address(), callee.port);
    let farm = Farm::behind_balancer(&network, &hosts, &nats, ("bob", target));
    let received = || -> Vec<u64> {
        farm.nodes.iter().map(|node| node.metric("belfry_datagrams_received_total")).collect()
    };
    let before: u64 = received().iter().sum();
    let address = SocketAddrV4::new(VIRTUAL_ADDRESS, farm.port);
    Sipp::calling_on(&phones, "-uac", address, "bob", CALLS, 40).succeeds();
    // SIPp succeeds only if no call has failed. The figures are published twice a second.
    let least = before + u64::from(CALLS) * PACKETS;
    let all = || received().iter().sum::<u64>() >= least;
    wait_until("all packets of the calls at the nodes", Duration::from_secs(20), all, || {
        format!("{:?}, expected {least}", received())
    });
    let received = received();
    let sum: u64 = received.iter().sum();
    // In turn: a third each, and a few more where the callee or the caller repeated one.
    assert!(received.iter().all(|count| *count * 4 > sum), "{received:?}");
    let started = || farm.calls().iter().sum::<u64>();
    wait_until(
        "the calls in the figures",
        Duration::from_secs(20),
        || started() == u64::from(CALLS),
        || format!("{:?}", farm.calls()),
    );
    assert!(farm.calls().iter().all(|calls| *calls > 0), "{:?}", farm.calls());
    for node in &farm.nodes {
        let relayed = node.metric("belfry_farm_relayed_packets_total");
        assert!(relayed > 0, "{}", node.metrics());
    }
}
