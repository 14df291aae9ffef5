//! When apps are read ahead before they are launched: a pure state machine, without files and threads.
//!
//! ```text
//!            occasion               quiet              some are likely
//!   resting ─────────► waiting ───────────► choosing ──────────────────► reading ─► resting
//!      ▲                │    ▲                  │                           │
//!      └─── patience ───┘    └──────────────────┴────── others use drives ──┘
//! ```
//!
//! A launch, and the end of the service, lead from everywhere to resting; the launch's end is an occasion. Resting
//! takes no timer.

use std::time::{Duration, Instant};

/// How long the system may be busy until an occasion is forgotten.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long after a round the end of something is no occasion for another one: it would choose the same apps.
const ROUND_LASTS: Duration = Duration::from_secs(10 * 60);

/// Something after which likely apps may be missing from the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpOccasion {
    /// The service started: perhaps the system did.
    Started,
    /// The users who are logged in may be others than before.
    Login,
    /// The system was asleep: hours may have passed.
    Resumed,
    /// A launch is over, or a program has ended that had read much.
    Ended,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpEvent {
    /// Likely apps may be missing from the caches.
    Occasion(WarmUpOccasion),
    /// The time of [`WarmUpState::until_due`] has come.
    Due,
    /// Whether nothing has happened since the last look.
    Looked { is_quiet: bool },
    /// The likely apps are known.
    Chosen,
    /// There are no further ones, or there is no room.
    NothingLeft,
    /// One of them was read.
    Read,
    /// Others use drives, or the service has much else to do.
    Disturbed,
    /// A launch begins, or nothing is to be read before launches any more.
    Stopped,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpAction {
    /// Note how things are, to be compared at the next look.
    Note,
    /// Find out whether nothing has happened since.
    Look,
    /// Find out which apps are likely.
    Choose,
    /// Read the next of them.
    ReadNext,
    /// End the read that is under way, and forget the others.
    Stop,
}

/// How far a round is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Resting,
    /// Since the occasion, until the next look.
    Waiting {
        since: Instant,
        look_at: Instant,
    },
    Choosing {
        since: Instant,
    },
    Reading {
        since: Instant,
    },
}

/// Where the reading ahead before launches is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUpState {
    stage: Stage,
    /// When the last round came to its end.
    round: Option<Instant>,
}

impl WarmUpState {
    /// The next state, and what is to be done, in this order. The system is quiet after `quiet` in which nothing happened.
    pub fn step(
        self,
        event: WarmUpEvent,
        now: Instant,
        quiet: Duration,
    ) -> (Self, Vec<WarmUpAction>) {
        use WarmUpAction as A;
        use WarmUpEvent as E;
        let round = match event {
            // Another round may choose other apps, also where a launch puts it off until that has ended.
            E::Occasion(occasion) if occasion != WarmUpOccasion::Ended => None,
            _ => self.round,
        };
        let to = |stage, actions: &[A]| (WarmUpState { stage, round }, actions.to_vec());
        let wait_from = |since| Stage::Waiting {
            since,
            look_at: now + quiet,
        };
        let is_over = |since| now.saturating_duration_since(since) >= PATIENCE;
        match (self.stage, event) {
            (Stage::Resting | Stage::Waiting { .. }, E::Stopped) => to(Stage::Resting, &[]),
            (_, E::Stopped) => to(Stage::Resting, &[A::Stop]),

            (Stage::Resting, E::Occasion(WarmUpOccasion::Ended)) if self.had_round(now) => {
                to(Stage::Resting, &[])
            }
            // It does not put off what waits or is done.
            (stage, E::Occasion(WarmUpOccasion::Ended)) if stage != Stage::Resting => {
                to(stage, &[])
            }
            (Stage::Resting | Stage::Waiting { .. }, E::Occasion(_)) => {
                to(wait_from(now), &[A::Note])
            }
            (_, E::Occasion(_)) => to(wait_from(now), &[A::Stop, A::Note]),

            (Stage::Waiting { look_at, .. }, E::Due) if now >= look_at => {
                to(self.stage, &[A::Look])
            }
            (Stage::Waiting { since, .. }, E::Looked { is_quiet: true }) => {
                to(Stage::Choosing { since }, &[A::Choose])
            }
            (Stage::Waiting { since, .. }, E::Looked { .. }) if is_over(since) => {
                to(Stage::Resting, &[])
            }
            (Stage::Waiting { since, .. }, E::Looked { .. }) => to(wait_from(since), &[A::Note]),

            (Stage::Choosing { since }, E::Chosen) => to(Stage::Reading { since }, &[A::ReadNext]),
            (Stage::Reading { .. }, E::Read) => to(self.stage, &[A::ReadNext]),
            (Stage::Choosing { .. } | Stage::Reading { .. }, E::NothingLeft) => {
                let over = WarmUpState {
                    stage: Stage::Resting,
                    round: Some(now),
                };
                (over, vec![A::Stop])
            }
            (Stage::Choosing { since } | Stage::Reading { since }, E::Disturbed) => {
                match is_over(since) {
                    true => to(Stage::Resting, &[A::Stop]),
                    false => to(wait_from(since), &[A::Stop, A::Note]),
                }
            }
            // Of a read that was stopped, or of a choice that came too late.
            _ => to(self.stage, &[]),
        }
    }

    /// Time until [`WarmUpEvent::Due`]; `None` while nothing is waited for.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        match self.stage {
            Stage::Waiting { look_at, .. } => Some(look_at.saturating_duration_since(now)),
            Stage::Resting | Stage::Choosing { .. } | Stage::Reading { .. } => None,
        }
    }

    /// Whether likely apps are being looked for.
    pub fn is_choosing(&self) -> bool {
        matches!(self.stage, Stage::Choosing { .. })
    }

    fn had_round(&self, now: Instant) -> bool {
        let lasts = |round| now.saturating_duration_since(round) < ROUND_LASTS;
        self.round.is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::WarmUpAction::{Choose, Look, Note, ReadNext, Stop};
    use super::WarmUpEvent::{Chosen, Disturbed, Due, Looked, NothingLeft, Read, Stopped};
    use super::*;

    const QUIET: Duration = Duration::from_secs(10);

    impl WarmUpState {
        /// Whether an app is being read.
        fn is_reading(&self) -> bool {
            matches!(self.stage, Stage::Reading { .. })
        }
    }

    /// A state machine with a clock that the test moves.
    struct Machine {
        state: WarmUpState,
        now: Instant,
    }

    impl Machine {
        fn new() -> Self {
            Machine {
                state: WarmUpState::default(),
                now: Instant::now(),
            }
        }

        fn happens(&mut self, event: WarmUpEvent) -> Vec<WarmUpAction> {
            let (state, actions) = self.state.step(event, self.now, QUIET);
            self.state = state;
            actions
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }

        /// Something happens, and then nothing, until apps are read.
        fn read(&mut self) {
            assert_eq!(self.occasion(WarmUpOccasion::Login), [Note]);
            self.pass(QUIET);
            assert_eq!(self.happens(Due), [Look]);
            assert_eq!(self.happens(Looked { is_quiet: true }), [Choose]);
            assert_eq!(self.happens(Chosen), [ReadNext]);
            assert!(self.state.is_reading());
        }

        fn occasion(&mut self, occasion: WarmUpOccasion) -> Vec<WarmUpAction> {
            self.happens(WarmUpEvent::Occasion(occasion))
        }
    }

    #[test]
    fn likely_apps_are_read_one_after_the_other_once_nothing_happens() {
        let mut machine = Machine::new();
        assert_eq!(machine.state.until_due(machine.now), None, "no timer");
        machine.read();
        assert_eq!(machine.state.until_due(machine.now), None, "no timer");
        assert_eq!(machine.happens(Read), [ReadNext]);
        assert_eq!(machine.happens(NothingLeft), [Stop]);
        assert_eq!(machine.state.until_due(machine.now), None, "no timer");
    }

    #[test]
    fn a_launch_stops_everything_and_its_end_begins_anew() {
        let mut machine = Machine::new();
        machine.read();
        assert_eq!(machine.happens(Stopped), [Stop]);
        assert_eq!(machine.state.until_due(machine.now), None);
        assert_eq!(machine.happens(Read), [], "it comes too late");
        assert_eq!(machine.happens(Disturbed), []);
        assert_eq!(machine.occasion(WarmUpOccasion::Ended), [Note]);
        assert_eq!(machine.state.until_due(machine.now), Some(QUIET));
        assert_eq!(machine.happens(Stopped), [], "nothing is read yet");
        assert_eq!(machine.happens(Due), []);
    }

    #[test]
    fn a_busy_system_is_looked_at_again_until_patience_ends() {
        let mut machine = Machine::new();
        machine.occasion(WarmUpOccasion::Started);
        let mut looks = 0;
        while machine.state.until_due(machine.now).is_some() {
            assert_eq!(machine.happens(Due), [], "too early");
            machine.pass(QUIET);
            assert_eq!(machine.happens(Due), [Look]);
            looks += 1;
            machine.happens(Looked { is_quiet: false });
        }
        assert_eq!(looks, PATIENCE.as_secs() / QUIET.as_secs());
    }

    #[test]
    fn the_end_of_something_is_no_occasion_soon_after_a_round_and_a_login_is() {
        let mut machine = Machine::new();
        machine.read();
        machine.happens(NothingLeft);
        assert_eq!(machine.occasion(WarmUpOccasion::Ended), []);
        machine.pass(ROUND_LASTS);
        assert_eq!(machine.occasion(WarmUpOccasion::Ended), [Note]);
        machine.pass(QUIET / 2);
        assert_eq!(
            machine.occasion(WarmUpOccasion::Ended),
            [],
            "it puts nothing off"
        );
        let left = machine.state.until_due(machine.now);
        assert_eq!(left, Some(QUIET / 2));
        machine.happens(Stopped);
        machine.read();
        assert_eq!(machine.occasion(WarmUpOccasion::Ended), []);
        assert_eq!(machine.occasion(WarmUpOccasion::Resumed), [Stop, Note]);
        machine.happens(Stopped);
        machine.read();
        machine.happens(NothingLeft);
        assert_eq!(machine.occasion(WarmUpOccasion::Login), [Note]);
    }

    #[test]
    fn a_login_soon_after_a_round_is_not_lost_to_a_launch() {
        let mut machine = Machine::new();
        machine.read();
        machine.happens(NothingLeft);
        machine.occasion(WarmUpOccasion::Login);
        assert_eq!(machine.happens(Stopped), []);
        assert_eq!(machine.occasion(WarmUpOccasion::Ended), [Note]);
    }

    #[test]
    fn a_choice_is_put_off_while_the_service_has_much_else_to_do() {
        let mut machine = Machine::new();
        machine.occasion(WarmUpOccasion::Started);
        machine.pass(QUIET);
        machine.happens(Due);
        assert_eq!(machine.happens(Looked { is_quiet: true }), [Choose]);
        assert_eq!(machine.happens(Disturbed), [Stop, Note]);
        assert_eq!(machine.state.until_due(machine.now), Some(QUIET));
    }

    #[test]
    fn others_reads_put_the_rest_off() {
        let mut machine = Machine::new();
        machine.read();
        assert_eq!(machine.happens(Disturbed), [Stop, Note]);
        assert_eq!(machine.state.until_due(machine.now), Some(QUIET));
        machine.pass(QUIET);
        machine.happens(Due);
        machine.happens(Looked { is_quiet: true });
        machine.happens(Chosen);
        machine.pass(PATIENCE);
        assert_eq!(machine.happens(Disturbed), [Stop], "they go on reading");
        assert_eq!(machine.state.until_due(machine.now), None);
    }

    fn event() -> impl Strategy<Value = WarmUpEvent> {
        let occasions = [
            WarmUpOccasion::Started,
            WarmUpOccasion::Login,
            WarmUpOccasion::Resumed,
            WarmUpOccasion::Ended,
        ];
        prop_oneof![
            prop::sample::select(occasions.to_vec()).prop_map(WarmUpEvent::Occasion),
            Just(Due),
            any::<bool>().prop_map(|is_quiet| Looked { is_quiet }),
            Just(Chosen),
            Just(NothingLeft),
            Just(Read),
            Just(Disturbed),
            Just(Stopped),
        ]
    }

    proptest! {
        /// Whatever happens: apps are read only while it says so, and a launch ends that.
        #[test]
        fn nothing_is_read_after_a_stop(events in prop::collection::vec((event(), 0_u64..20), 0..60)) {
            let mut machine = Machine::new();
            for (event, seconds) in events {
                machine.pass(Duration::from_secs(seconds));
                let was_reading = machine.state.is_reading();
                let actions = machine.happens(event);
                prop_assert!(!actions.contains(&ReadNext) || machine.state.is_reading());
                if was_reading && !machine.state.is_reading() {
                    prop_assert!(actions.contains(&Stop));
                }
            }
            machine.happens(Stopped);
            prop_assert!(!machine.state.is_reading() && !machine.state.is_choosing());
            prop_assert_eq!(machine.state.until_due(machine.now), None);
        }
    }
}
