use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, NAPTR, SOA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use net::{DnsAnswer, NetSettings};
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use stdx::Instant;
use tokio::net::UdpSocket;
use tokio::task::spawn_local;

use super::*;

type Zone = HashMap<(&'static str, RecordType), Vec<RData>>;

fn name(name: &str) -> Name {
    Name::from_ascii(name).unwrap()
}

/// Answers from the zone; silence for names with `silent` in them, NXDOMAIN for names it does not have.
async fn serve(socket: UdpSocket, zone: Zone) {
    let mut buffer = [0; 2048];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        let question = Message::from_vec(&buffer[..length]).unwrap();
        if let Some(answer) = reply(&question, &zone) {
            socket.send_to(&answer.to_vec().unwrap(), peer).await.unwrap();
        }
    }
}

fn reply(question: &Message, zone: &Zone) -> Option<Message> {
    let query = question.queries[0].clone();
    let asked = query.name().to_lowercase().to_ascii();
    if asked.contains("silent") {
        return None;
    }
    let mut answer = Message::new(question.metadata.id, MessageType::Response, question.metadata.op_code);
    answer.metadata.recursion_available = true;
    let found = zone.get(&(asked.as_str(), query.query_type()));
    let alias = zone.get(&(asked.as_str(), RecordType::CNAME));
    if asked.contains("broken") {
        answer.metadata.response_code = ResponseCode::ServFail;
    } else if let Some(records) = found.or(alias) {
        for data in records {
            answer.add_answer(Record::from_rdata(query.name().clone(), 60, data.clone()));
        }
    } else {
        if !zone.keys().any(|(known, _)| *known == asked) {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        let soa = SOA::new(name("example."), name("host.example."), 1, 60, 60, 60, 60);
        answer.add_authority(Record::from_rdata(name("example."), 60, RData::SOA(soa)));
    }
    answer.add_query(query);
    Some(answer)
}

fn zone() -> Zone {
    let naptr = |order, service: &str, replacement: &str| {
        RData::NAPTR(NAPTR::new(
            order,
            10,
            b"s".to_vec().into(),
            service.as_bytes().to_vec().into(),
            Box::new([]),
            name(replacement),
        ))
    };
    HashMap::from([
        (("a.example.", RecordType::A), vec![RData::A(A(Ipv4Addr::new(192, 0, 2, 1)))]),
        (("a.example.", RecordType::AAAA), vec![RData::AAAA(AAAA(Ipv6Addr::LOCALHOST))]),
        (("alias.example.", RecordType::CNAME), vec![RData::CNAME(CNAME(name("a.example.")))]),
        (
            ("_sip._udp.example.", RecordType::SRV),
            vec![
                RData::SRV(SRV::new(1, 2, 5060, name("A.example."))),
                RData::SRV(SRV::new(3, 4, 5070, name("."))),
            ],
        ),
        (
            ("example.", RecordType::NAPTR),
            vec![naptr(1, "SIPS+D2T", "_sips._tcp.example."), naptr(2, "SIP+D2U", "_sip._udp.example.")],
        ),
    ])
}

async fn shard(settings: NetSettings) -> Shard {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nameservers = vec![socket.local_addr().unwrap()];
    spawn_local(serve(socket, zone()));
    Shard::new(NetSettings { nameservers, ..settings })
}

async fn answer(shard: &mut Shard, wanted: u64) -> Result<Vec<DnsRecord>, DnsFault> {
    shard
        .event(|event| match event {
            NetEvent::Dns(DnsAnswer { id, result }) if *id == wanted => Some(result.clone()),
            _ => None,
        })
        .await
}

async fn ask(shard: &mut Shard, query: DnsQuery) -> Result<Vec<DnsData>, DnsFault> {
    shard.io.lookup(Instant::default(), 7, &query);
    let records = answer(shard, 7).await?;
    assert!(records.iter().all(|record| (1..=60).contains(&record.ttl)));
    Ok(records.into_iter().map(|record| record.data).collect())
}

#[test]
fn records_of_each_type_are_delivered() {
    run(async {
        let mut shard = shard(NetSettings::default()).await;
        let v4 = DnsData::Address(Ipv4Addr::new(192, 0, 2, 1).into());
        assert_eq!(ask(&mut shard, DnsQuery::A("a.example".into())).await, Ok(vec![v4]));
        let v6 = DnsData::Address(Ipv6Addr::LOCALHOST.into());
        assert_eq!(ask(&mut shard, DnsQuery::Aaaa("A.EXAMPLE.".into())).await, Ok(vec![v6]));
        let srv = |priority, weight, port, target: &str| DnsData::Srv {
            priority,
            weight,
            port,
            target: target.into(),
        };
        assert_eq!(
            ask(&mut shard, DnsQuery::Srv("_sip._udp.example".into())).await,
            Ok(vec![srv(1, 2, 5060, "a.example"), srv(3, 4, 5070, "")])
        );
        let naptr = |order, service: &str, replacement: &str| DnsData::Naptr {
            order,
            preference: 10,
            flags: "s".into(),
            service: service.into(),
            replacement: replacement.into(),
        };
        assert_eq!(
            ask(&mut shard, DnsQuery::Naptr("example".into())).await,
            Ok(vec![naptr(1, "SIPS+D2T", "_sips._tcp.example"), naptr(2, "SIP+D2U", "_sip._udp.example")])
        );
    });
}

#[test]
fn aliases_are_followed() {
    run(async {
        let mut shard = shard(NetSettings::default()).await;
        let v4 = DnsData::Address(Ipv4Addr::new(192, 0, 2, 1).into());
        assert_eq!(ask(&mut shard, DnsQuery::A("alias.example".into())).await, Ok(vec![v4]));
    });
}

#[test]
fn no_such_name_no_data_and_no_answer_are_different_results() {
    run(async {
        let settings = NetSettings { dns_timeout: Duration::from_millis(200), ..NetSettings::default() };
        let mut shard = shard(settings).await;
        let cases = [
            ("gone.example", DnsFault::NoName),
            ("_sip._udp.example", DnsFault::NoData),
            ("silent.example", DnsFault::Failed),
            ("broken.example", DnsFault::Failed),
            ("", DnsFault::BadName),
            ("a..example", DnsFault::BadName),
        ];
        for (name, fault) in cases {
            assert_eq!(ask(&mut shard, DnsQuery::A(name.into())).await, Err(fault), "{name}");
        }
    });
}

#[test]
fn open_questions_are_bounded() {
    run(async {
        let settings = NetSettings { max_dns_questions: 2, ..NetSettings::default() };
        let mut shard = shard(settings).await;
        for id in 0..3 {
            shard.io.lookup(Instant::default(), id, &DnsQuery::A("a.example".into()));
        }
        assert_eq!(answer(&mut shard, 2).await, Err(DnsFault::Busy));
        assert!(answer(&mut shard, 0).await.is_ok() && answer(&mut shard, 1).await.is_ok());
    });
}
