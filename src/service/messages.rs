//! What to do with messages.

use super::core::Service;
use super::message::Message;

impl Service<'_> {
    pub(super) fn on_message(&mut self, message: Message) {
        match message {
            Message::Learning(thread, news) => self.on_learning(thread, news),
            Message::Waits(changed) => self.on_waits(changed),
            Message::Prefetched(launch) => self.on_prefetched(launch),
            Message::Profiles { found, known } => self.on_profiles(found, &known),
            Message::Rescheduled { id, outcome } => self.on_rescheduled(&id, outcome),
            Message::Checked {
                id,
                obsolete,
                entries,
                ready,
            } => self.on_checked(&id, obsolete, entries, ready),
            Message::NotKept { id, why } => self.on_not_kept(&id, why),
            Message::Candidates(found) => self.on_candidates(found),
            Message::Warning(warning) => self.warn(warning),
            Message::Control(call) => call(self),
        }
    }
}
