//! Connections in memory, on a runtime with a paused clock.

use std::future::Future;

use bytestreams::{StreamHash, limits as machine};
use net::admission::Bounds;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

type World = Arc<Connections<DuplexStream>>;

fn settings() -> BytestreamProxySettings {
    BytestreamProxySettings {
        listen: Vec::new(),
        proxy: ProxySettings { waiting: 10, transfers: 10 },
        admission: Admission::new(Bounds { total: 10, per_source: 10 }),
        per_source: 10,
        idle: Duration::from_secs(300),
        bytes_per_second: None,
    }
}

fn hash() -> StreamHash {
    StreamHash::of("sid", "alice@example.org/a", "bob@example.org/b")
}

fn activation() -> Activation<'static> {
    Activation { hash: hash(), account: "alice@example.org" }
}

/// The far end of a new connection.
fn connect(world: &World) -> DuplexStream {
    let (near, far) = duplex(64 << 10);
    let remote = IpAddr::from([192, 0, 2, 1]);
    let admitted = world.settings.admission.enter(Some(remote.into()), world.settings.per_source).unwrap();
    tokio::task::spawn_local(serve(Arc::clone(world), near, remote, admitted));
    far
}

/// A connection that has been told that it is connected.
async fn connect_to(world: &World, hash: StreamHash) -> DuplexStream {
    let mut far = connect(world);
    let request = [&[5, 1, 0, 5, 1, 0, 3, 40][..], hash.to_hex().as_bytes(), &[0, 0]].concat();
    // In two pieces.
    far.write_all(&request[..20]).await.unwrap();
    far.write_all(&request[20..]).await.unwrap();
    let mut reply = [0; 2 + 47];
    far.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply[..7], [5, 0, 5, 0, 0, 3, 40]);
    far
}

async fn is_closed(far: &mut DuplexStream) -> bool {
    far.read(&mut [0]).await.unwrap() == 0
}

fn play<F: Future<Output = ()>>(settings: BytestreamProxySettings, test: impl FnOnce(World) -> F) {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let world: World = Connections::new(settings);
        let own = Arc::clone(&world);
        let timers = tokio::task::spawn_local(async move { own.expire_when_due().await });
        test(Arc::clone(&world)).await;
        timers.abort();
        let _ = timers.await;
    });
}

#[test]
fn bytes_flow_both_ways_and_an_end_that_has_sent_all_still_receives() {
    play(settings(), |world| async move {
        let mut target = connect_to(&world, hash()).await;
        let mut requester = connect_to(&world, hash()).await;
        requester.write_all(b"early ").await.unwrap();
        // The task of the requester has to have read them, or they are read after the join: the target cannot tell.
        world.activate(activation()).unwrap();
        requester.write_all(b"and late").await.unwrap();
        requester.shutdown().await.unwrap();
        let mut got = Vec::new();
        target.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"early and late");
        target.write_all(b"thanks").await.unwrap();
        drop(target);
        got.clear();
        requester.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"thanks");
        drop(requester);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let figures = BytestreamFigures { transfers: 1, bytes: 20, ..BytestreamFigures::default() };
        assert_eq!(world.figures(), figures);
        assert!(world.lock().orders.is_empty());
        assert_eq!(Arc::strong_count(&world), 3, "the test, its caller and the timers");
    });
}

#[test]
fn connections_that_are_not_activated_are_closed_at_their_deadline() {
    play(settings(), |world| async move {
        let began = tokio::time::Instant::now();
        let mut silent = connect(&world);
        let mut waiting = connect_to(&world, hash()).await;
        assert_eq!(world.activate(activation()), Err(ActivationFault::OneEnd));
        assert!(is_closed(&mut silent).await);
        assert_eq!(began.elapsed().as_secs(), machine::HANDSHAKE.as_secs());
        assert!(is_closed(&mut waiting).await);
        assert_eq!(began.elapsed().as_secs(), machine::WAITING.as_secs());
        assert_eq!(world.activate(activation()), Err(ActivationFault::Unknown));
        assert_eq!(world.figures(), BytestreamFigures { refused: 2, ..BytestreamFigures::default() });
    });
}

#[test]
fn a_request_that_is_no_bytestream_is_refused_with_a_reply() {
    play(settings(), |world| async move {
        let mut far = connect(&world);
        far.write_all(&[5, 1, 0, 5, 1, 0, 3, 11]).await.unwrap();
        far.write_all(b"example.org\0\x50").await.unwrap();
        let mut reply = Vec::new();
        far.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, [5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
        connect_to(&world, hash()).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(world.figures(), BytestreamFigures { refused: 1, ..BytestreamFigures::default() });
    });
}

#[test]
fn a_transfer_in_which_nothing_moves_ends() {
    play(settings(), |world| async move {
        let (mut target, mut requester) =
            (connect_to(&world, hash()).await, connect_to(&world, hash()).await);
        world.activate(activation()).unwrap();
        tokio::time::sleep(Duration::from_secs(200)).await;
        target.write_all(b"still here").await.unwrap();
        requester.read_exact(&mut [0; 10]).await.unwrap();
        let since = tokio::time::Instant::now();
        assert!(is_closed(&mut requester).await && is_closed(&mut target).await);
        assert_eq!(since.elapsed().as_secs(), 300);
        assert_eq!(world.figures().active, 0);
    });
}

#[test]
fn a_rate_slows_each_direction() {
    play(BytestreamProxySettings { bytes_per_second: Some(10_000), ..settings() }, |world| async move {
        let (mut target, mut requester) =
            (connect_to(&world, hash()).await, connect_to(&world, hash()).await);
        world.activate(activation()).unwrap();
        let since = tokio::time::Instant::now();
        let sending = async {
            requester.write_all(&vec![7; 100_000]).await.unwrap();
            requester.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let (_, read) = tokio::join!(sending, target.read_to_end(&mut got));
        assert_eq!(read.unwrap(), 100_000);
        assert!((9..=11).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
    });
}
