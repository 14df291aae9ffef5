//! Which users are people.

/// The first user of a person, not of the system (login.defs(5)), and nobody, who is none.
const FIRST_PERSON: u32 = 1000;
const NOBODY: u32 = 65_534;

/// Whether a user is a person. Those of a directory service (LDAP, Active Directory) have large numbers.
pub fn is_person(uid: u32) -> bool {
    uid >= FIRST_PERSON && uid != NOBODY
}
