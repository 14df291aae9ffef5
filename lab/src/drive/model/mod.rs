//! When a drive completes a request. Pure: times come in and go out as nanoseconds of any one clock.
//!
//! Flash knows a request's completion at its arrival: nothing that comes later can overtake it on its
//! channel. A disk with heads chooses its next request only when the heads are free. So [`Model::arrive`]
//! gives a ticket, and [`Model::ask`] either says when the request is complete or when to ask again.

mod blocks;
mod channels;
mod flash;
mod heads;
mod timeline;
mod units;
mod writes;

use anyhow::{Context, Result};

use super::profile::DriveProfile;
use flash::FlashModel;
use heads::HeadsModel;
#[cfg(test)]
use units::micros;

/// A request as it reaches the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What is asked for.
    pub operation: Operation,
    /// When it arrives, in ns. May lie a little before what was said earlier: threads deliver requests.
    pub arrival: u64,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The data.
    Read,
    /// To have the data.
    Write,
    /// To forget the data.
    Discard,
    /// To bring what was written before to the medium; without a range.
    Flush,
}

/// Names a request between its arrival and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The answer to [`Model::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The request is complete at this time, in ns. The ticket is used up.
    Complete(u64),
    /// The drive has not chosen yet: ask again at this time, in ns, which is after the asking.
    AskAt(u64),
}

/// A drive's state.
#[derive(Clone, Debug)]
pub struct Model {
    medium: Medium,
    tickets: u64,
}

#[derive(Clone, Debug)]
enum Medium {
    Flash {
        flash: Box<FlashModel>,
        complete: Vec<(Ticket, u64)>,
    },
    Heads(HeadsModel),
}

impl Model {
    /// An idle drive of `capacity` bytes. Fails if the profile is not of an emulated drive.
    pub fn new(profile: &DriveProfile, capacity: u64) -> Result<Model> {
        let bus = profile
            .bus
            .as_ref()
            .with_context(|| format!("drive '{}' is not emulated", profile.name))?;
        let medium = match (&profile.flash, &profile.heads) {
            (_, Some(heads)) => Medium::Heads(HeadsModel::new(bus, heads, capacity)),
            (Some(flash), None) => Medium::Flash {
                flash: Box::new(FlashModel::new(bus, flash, capacity)),
                complete: Vec::new(),
            },
            (None, None) => anyhow::bail!("drive '{}' has no medium", profile.name),
        };
        Ok(Model { medium, tickets: 0 })
    }

    /// Notes that the drive held data in these bytes before the first request: the rest is free.
    pub fn occupy(&mut self, offset: u64, length: u64) {
        match &mut self.medium {
            Medium::Flash { flash, .. } => flash.occupy(offset, length),
            Medium::Heads(_) => {}
        }
    }

    /// Hands a request to the drive.
    pub fn arrive(&mut self, request: Request) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        match &mut self.medium {
            Medium::Flash { flash, complete } => complete.push((ticket, flash.complete(&request))),
            Medium::Heads(heads) => heads.arrive(ticket, request),
        }
        ticket
    }

    /// When a request completes, as far as the model knows at the time `now`. A used-up ticket is complete
    /// now.
    pub fn ask(&mut self, ticket: Ticket, now: u64) -> Timing {
        match &mut self.medium {
            Medium::Flash { complete, .. } => {
                let found = complete.iter().position(|(other, _)| *other == ticket);
                Timing::Complete(found.map_or(now, |index| complete.swap_remove(index).1))
            }
            Medium::Heads(heads) => heads.ask(ticket, now),
        }
    }
}

#[cfg(test)]
mod tests;
