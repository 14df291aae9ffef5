//! Launches that somebody announced.

use super::catalogue::{Candidate, FoundApp};
use super::core::Service;
use crate::model::App;
use crate::service::announce::AnnouncedLaunch;
use crate::service::registry::{Added, Marks};

impl Service<'_> {
    /// Launches that somebody announced.
    pub(super) fn on_announced(&mut self) {
        // So many at once, and then others have their turn.
        for _ in 0..16 {
            let from_socket = self.socket.as_ref().map(|socket| socket.receive());
            let from_file = || self.file.as_ref().map(|file| file.receive());
            let received = match from_socket {
                Some(Ok(None)) | None => from_file(),
                other => other,
            };
            match received {
                Some(Ok(Some(announced))) => self.on_announcement(&announced),
                Some(Ok(None)) | None => return,
                Some(Err(error)) => return self.warn(error.to_string()),
            }
        }
    }

    fn on_announcement(&mut self, announced: &AnnouncedLaunch) {
        let id = announced.identity();
        let found = FoundApp {
            id: id.clone(),
            app: App {
                path: id.clone().into_bytes(),
                root: None,
                dev: 0,
                ino: 0,
            },
        };
        if self.registry.get(&id).is_none() {
            if self.is_full() {
                // Anybody may announce any name.
                return self.warn(format!("{id} is not managed: there are too many apps"));
            }
            let candidate = Candidate {
                title: announced.name.clone(),
                added: Added::Announced,
                marks: Marks::default(),
            };
            self.registry.insert(candidate.record(&id));
            // It is learned if that can be had ready in time, or else the next time.
            self.watch_for_learning();
        }
        match self.watch.adopt(announced.pid) {
            Ok(Some(launch)) => {
                let pid = announced.pid.as_raw_nonzero().get() as u32;
                self.begin(launch, pid, found, true);
                self.confirmed(launch);
            }
            Ok(None) => self.warn("too many launches at once: one was left alone".to_owned()),
            // It is gone already.
            Err(error) => tracing::debug!("{error}"),
        }
    }
}
