//! Deciding about an app's next launch from those before: its phases (paper §4.1 and §4.3) and dynamic
//! scheduling (paper §3.3).
//!
//! ```text
//!              learned                    does not gain, or the user says so
//!  learning ───────────► prefetching ────────────────────────────► disabled
//!   ▲ ▲ │                 │   │   ▲                                 │  ▲
//!   │ │ │                 │   └───┘ dynamic scheduling              │  │
//!   │ └─┼─────────────────┘ 10 % rule, obsolete entries,            │  │
//!   │   │                   another executable, now and then        │  │
//!   │   └───────────────── nothing to learn ────────────────────────┼──┘
//!   └───────────────────── after 30 days ───────────────────────────┘
//! ```
//!
//! [`Managed`] is what is remembered of one app from launch to launch. Before a launch, [`Managed::plan`]
//! says what to do with it; after it, [`Managed::next`] takes its figures and decides what to change. Both
//! are deterministic functions over plain data: the caller supplies the time, the random number and the
//! figures, and carries out the decisions. The state can be serialised. Losing it costs the tuning of a few
//! launches.
//!
//! The first launches are learned in a row, prefetched by what is known so far, and later one now and then
//! ([`LearnedLaunches`]). [`Tuning`] is dynamic scheduling by itself, [`Gain`] measures whether prefetching helps, and
//! [`check_files`] finds obsolete entries. Apart from an app's own launches, [`likely`] predicts which apps come next.

mod before_launch;
mod cold_requests;
mod dynamic;
mod gain;
mod launch_figures;
mod learned_launches;
pub mod likely;
mod managed;
mod no_gain;
mod obsolete;
mod relearn;
mod shield;
mod took;
mod tuned_parameter;
mod types;
mod usual_reads;

pub use before_launch::ReadBefore;
pub use cold_requests::estimate_cold_requests;
pub use dynamic::{Level, Tuning, TuningEnd};
pub use gain::{Gain, TypicalTimes};
#[cfg(test)]
pub use launch_figures::well_prefetched;
pub use launch_figures::{LaunchFigures, Warmth};
pub use learned_launches::LearnedLaunches;
pub use managed::Managed;
pub use no_gain::{NoGainFacts, NoGainReason, why_no_gain};
pub use obsolete::{Checked, Finding, check_files};
pub use shield::{
    DriveLook, REASON_LASTS, ReleaseReason, ShieldAction, ShieldEvent, ShieldState, WriteLimits,
};
pub use took::{Completion, took_us};
pub use tuned_parameter::{TunedParameter, TuningRules};
pub use types::{
    ColdLaunch, Decision, DecisionReason, Observation, Off, Phase, PhaseRequest, Plan,
};
