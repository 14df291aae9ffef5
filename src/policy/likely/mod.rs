//! Prediction: which apps a user launches in the next hours, and which of them are worth reading ahead before the click.
//!
//! [`probabilities`] says from the user's launches how likely each app is, [`worthwhile`] chooses among the apps what to
//! read within a budget. All are functions over plain data; the caller numbers the apps.

mod choice;
mod probability;

pub use choice::{Candidate, worthwhile};
pub use probability::{Evidence, HORIZON_S, PastLaunch, probabilities, probabilities_by};
