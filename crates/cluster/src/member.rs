//! The announcement of a node, which is the value of its key in the council.

use crate::address::Life;
use crate::fields::{Corrupt, Fields, put_bytes, put_number};
use crate::limits::{MEMBER_BYTES, NAME_BYTES};

/// The tasks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Roles {
    /// It has connections of clients, transactions, dialogs and media.
    pub is_edge: bool,
    /// It owns buckets: bindings, presence, sessions, rooms.
    pub is_router: bool,
}

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemberState {
    /// It starts and is given nothing yet.
    #[default]
    Joining,
    /// It takes its share.
    Serving,
    /// It gives all away and will leave.
    Draining,
    /// It has nothing any more and ends.
    Left,
}

/// A node as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Member {
    /// This start of the node.
    pub life: Life,
    /// The farm that it belongs to.
    pub farm: Box<str>,
    /// The node's name in the configuration, the same in all its lives.
    pub name: Box<str>,
    /// Its tasks.
    pub roles: Roles,
    /// Its share of buckets and call slots in relation to the others', for all its shards together.
    pub weight: u16,
    /// The address for links, `ip:port`.
    pub address: Box<str>,
    /// The number of its shards.
    pub shards: u16,
    /// The version of the program, for people.
    pub build: Box<str>,
    /// The least and the greatest wire version that it speaks.
    pub wire: (u16, u16),
    /// The phase of its life.
    pub state: MemberState,
    /// The number of this announcement among those of the life. A key that is read twice with the same number was not renewed
    /// in between.
    pub renewal: u64,
}

const LIFE: u64 = 1;
const FARM: u64 = 2;
const NAME: u64 = 3;
const ROLES: u64 = 4;
const WEIGHT: u64 = 5;
const ADDRESS: u64 = 6;
const SHARDS: u64 = 7;
const BUILD: u64 = 8;
const WIRE_LEAST: u64 = 9;
const WIRE_MOST: u64 = 10;
const STATE: u64 = 11;
const RENEWAL: u64 = 12;
// 20 and above are those of `crate::figures`.

const EDGE: u8 = 1;
const ROUTER: u8 = 2;

impl Member {
    /// True if two announcements say the same, whenever they were made.
    pub fn says_the_same(&self, other: &Member) -> bool {
        let Member { renewal, .. } = *other;
        Member { renewal, ..self.clone() } == *other
    }

    /// The value of the node's key.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, LIFE, u64::from(self.life.0));
        put_bytes(&mut out, FARM, self.farm.as_bytes());
        put_bytes(&mut out, NAME, self.name.as_bytes());
        put_number(&mut out, ROLES, u64::from(self.roles.bits()));
        put_number(&mut out, WEIGHT, u64::from(self.weight));
        put_bytes(&mut out, ADDRESS, self.address.as_bytes());
        put_number(&mut out, SHARDS, u64::from(self.shards));
        put_bytes(&mut out, BUILD, self.build.as_bytes());
        put_number(&mut out, WIRE_LEAST, u64::from(self.wire.0));
        put_number(&mut out, WIRE_MOST, u64::from(self.wire.1));
        put_number(&mut out, STATE, u64::from(self.state.number()));
        put_number(&mut out, RENEWAL, self.renewal);
        out
    }

    /// Reads the value of a node's key.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault, after at most [`MEMBER_BYTES`].
    pub fn decode(bytes: &[u8]) -> Result<Member, Corrupt> {
        let mut fields = Fields::new("member", bytes, MEMBER_BYTES)?;
        let mut member = Member::default();
        while let Some(field) = fields.next()? {
            match field.number {
                LIFE => member.life = Life(field.value()?),
                FARM => member.farm = field.text(NAME_BYTES)?,
                NAME => member.name = field.text(NAME_BYTES)?,
                ROLES => member.roles = Roles::of_bits(field.value()?),
                WEIGHT => member.weight = field.value()?,
                ADDRESS => member.address = field.text(NAME_BYTES)?,
                SHARDS => member.shards = field.value()?,
                BUILD => member.build = field.text(NAME_BYTES)?,
                WIRE_LEAST => member.wire.0 = field.value()?,
                WIRE_MOST => member.wire.1 = field.value()?,
                STATE => member.state = MemberState::of_number(field.value()?),
                RENEWAL => member.renewal = field.value()?,
                _ => {}
            }
        }
        Ok(member)
    }
}

impl Roles {
    /// Both tasks.
    pub const BOTH: Roles = Roles { is_edge: true, is_router: true };

    fn bits(self) -> u8 {
        u8::from(self.is_edge) * EDGE + u8::from(self.is_router) * ROUTER
    }

    /// Tasks of later versions are not known here.
    fn of_bits(bits: u64) -> Roles {
        Roles { is_edge: bits & u64::from(EDGE) != 0, is_router: bits & u64::from(ROUTER) != 0 }
    }
}

impl MemberState {
    fn number(self) -> u8 {
        match self {
            MemberState::Joining => 0,
            MemberState::Serving => 1,
            MemberState::Draining => 2,
            MemberState::Left => 3,
        }
    }

    /// A node in a state of a later version is given nothing.
    fn of_number(number: u64) -> MemberState {
        match number {
            1 => MemberState::Serving,
            2 => MemberState::Draining,
            3 => MemberState::Left,
            _ => MemberState::Joining,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn member(life: u32) -> Member {
        Member {
            life: Life(life),
            farm: "farm".into(),
            name: format!("node{life}").into(),
            roles: Roles::BOTH,
            weight: 1,
            address: format!("192.0.2.{}:5280", life % 200).into(),
            shards: 1,
            build: "0.1.0".into(),
            wire: (1, 1),
            state: MemberState::Serving,
            renewal: 1,
        }
    }

    #[test]
    fn an_announcement_comes_back() {
        for state in [MemberState::Joining, MemberState::Serving, MemberState::Draining, MemberState::Left] {
            let member = Member { state, weight: 1 << 15, ..member(1 << 31) };
            assert_eq!(Member::decode(&member.encode()), Ok(member));
        }
    }

    #[test]
    fn fields_of_later_versions_are_passed_over() {
        let mut bytes = member(1).encode();
        put_bytes(&mut bytes, 40, b"later");
        put_number(&mut bytes, STATE, 9);
        let expected = Member { state: MemberState::Joining, ..member(1) };
        assert_eq!(Member::decode(&bytes), Ok(expected));
    }

    #[test]
    fn names_are_bounded() {
        let long = Member { name: "x".repeat(NAME_BYTES + 1).into(), ..member(1) };
        assert_eq!(Member::decode(&long.encode()).unwrap_err().fault, "a field is too long or not UTF-8");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_announcement_or_a_fault(bytes: Vec<u8>) {
            if let Ok(member) = Member::decode(&bytes) {
                prop_assert_eq!(Member::decode(&member.encode()), Ok(member));
            }
        }
    }
}
