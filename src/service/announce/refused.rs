//! Why an announcement is not passed on.

use serde::Serialize;

/// A reason to refuse an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    TooOften,
    Unidentified,
    Namespace,
    NotTheirs,
    NotDescendant,
    Gone,
}

/// How many announcements were refused since the start, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Not as [`super::parse`] describes, or with descriptors attached.
    pub malformed: u64,
    /// Beyond the user's rate, [`super::Rate`].
    pub too_often: u64,
    /// Without a sender that exists in this pid namespace; also sent before the socket asked for
    /// credentials.
    pub unidentified: u64,
    /// With a process id that means another process here: the sender is in another pid namespace.
    /// From there, a process can announce itself (process id 0 or none).
    pub namespace: u64,
    /// For a process of another user.
    pub not_theirs: u64,
    /// For a process that is neither the sender nor a descendant of it.
    pub not_descendant: u64,
    /// For a process that does not exist, has ended, or is a thread; or the sender has ended.
    pub gone: u64,
}

impl Refused {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Refused {
            malformed,
            too_often,
            unidentified,
            namespace,
            not_theirs,
            not_descendant,
            gone,
        } = self;
        malformed + too_often + unidentified + namespace + not_theirs + not_descendant + gone
    }

    pub(super) fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Malformed => &mut self.malformed,
            Refusal::TooOften => &mut self.too_often,
            Refusal::Unidentified => &mut self.unidentified,
            Refusal::Namespace => &mut self.namespace,
            Refusal::NotTheirs => &mut self.not_theirs,
            Refusal::NotDescendant => &mut self.not_descendant,
            Refusal::Gone => &mut self.gone,
        } += 1;
    }
}
