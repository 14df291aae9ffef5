//! Settings that several launches need at the same time, each for as long as it goes on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{KnobError, Knobs};

/// Makes the command that runs [`crate::drive::keep`] for the record in a directory, for at most this long.
pub type KeeperCommand = fn(&Path, Duration) -> Option<Command>;

/// Settings of one guard, which stay changed until the last launch that needs any of them has released it.
pub struct SharedKnobs {
    run_dir: PathBuf,
    keeper: KeeperCommand,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Launches that need a setting.
    launches: usize,
    /// The changed settings, while there are such launches.
    knobs: Option<Knobs>,
    has_keeper: bool,
    is_closed: bool,
}

impl State {
    fn set(&mut self, settings: &[(PathBuf, String)]) -> Result<(), KnobError> {
        let Some(knobs) = &mut self.knobs else {
            return Ok(());
        };
        let mut settings = settings.iter();
        settings.try_for_each(|(path, value)| knobs.set(path, value))
    }
}

impl SharedKnobs {
    /// Nothing is changed yet. Changes are recorded in `run_dir`, which no other guard uses.
    pub fn new(run_dir: &Path, keeper: KeeperCommand) -> Arc<Self> {
        Arc::new(SharedKnobs {
            run_dir: run_dir.to_owned(),
            keeper,
            state: Mutex::default(),
        })
    }

    /// Gives these files these values until the last of what this returns is dropped. `None` while another process has
    /// the guard, and after [`SharedKnobs::close`]. `keeper`: the limit of the [keeper](HeldKnobs::start_keeper), which is
    /// started before the first change, for settings that take long to make; without it, the caller starts the keeper.
    ///
    /// # Errors
    /// When a setting, or the record of it, cannot be written, or the keeper cannot be started.
    pub fn hold(
        self: &Arc<Self>,
        settings: &[(PathBuf, String)],
        keeper: Option<Duration>,
    ) -> Result<Option<HeldKnobs>, KnobError> {
        let mut state = self.lock();
        if state.is_closed {
            return Ok(None);
        }
        if state.knobs.is_none() {
            state.knobs = match Knobs::acquire(&self.run_dir, None) {
                Err(KnobError::Busy) => return Ok(None),
                acquired => Some(acquired?),
            };
        }
        let kept = keeper.map_or(Ok(()), |limit| self.start_keeper(&mut state, limit));
        if let Err(error) = kept.and_then(|()| state.set(settings)) {
            if state.launches == 0 {
                // Dropping them restores what was changed.
                state.knobs = None;
                state.has_keeper = false;
            }
            return Err(error);
        }
        state.launches += 1;
        Ok(Some(HeldKnobs(Some(Arc::clone(self)))))
    }

    /// Whether a launch has changed this file and needs it still. Waits for a change under way.
    pub fn has_changed(&self, path: &Path) -> bool {
        let state = self.lock();
        let knobs = state.knobs.as_ref();
        knobs.is_some_and(|knobs| knobs.has_changed(path))
    }

    /// Starts the keeper, unless there is one or nothing is held.
    fn start_keeper(&self, state: &mut State, limit: Duration) -> Result<(), KnobError> {
        if state.has_keeper {
            return Ok(());
        }
        let command = (self.keeper)(&self.run_dir, limit);
        if let Some((knobs, command)) = state.knobs.as_mut().zip(command) {
            knobs.start_keeper(command)?;
            state.has_keeper = true;
        }
        Ok(())
    }

    /// Restores all now and for good: the process is about to end, whether its threads have ended or not.
    ///
    /// # Errors
    /// When a setting cannot be restored.
    pub fn close(&self) -> Result<(), KnobError> {
        let mut state = self.lock();
        state.is_closed = true;
        state.knobs.take().map_or(Ok(()), Knobs::restore)
    }

    fn release(&self) -> Result<(), KnobError> {
        let mut state = self.lock();
        state.launches -= 1;
        if state.launches > 0 {
            return Ok(());
        }
        state.has_keeper = false;
        state.knobs.take().map_or(Ok(()), Knobs::restore)
    }

    // Nothing can panic while it is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The settings stay changed while this lives, unless another process changes them.
pub struct HeldKnobs(Option<Arc<SharedKnobs>>);

impl HeldKnobs {
    /// Starts the process that restores them should this one be killed, or hang for longer than `limit`, unless
    /// [`SharedKnobs::hold`] has: to start a process takes a millisecond, by which some settings must not be late.
    ///
    /// # Errors
    /// When it cannot be started: then the next start of the service restores them.
    pub fn start_keeper(&self, limit: Duration) -> Result<(), KnobError> {
        let Some(shared) = &self.0 else {
            return Ok(());
        };
        shared.start_keeper(&mut shared.lock(), limit)
    }

    /// Has the keeper's limit begin anew: this process does not hang.
    ///
    /// # Errors
    /// When the keeper has ended and cannot be started again.
    pub fn renew(&self) -> Result<(), KnobError> {
        let Some(shared) = &self.0 else {
            return Ok(());
        };
        let mut state = shared.lock();
        state.knobs.as_mut().map_or(Ok(()), Knobs::renew)
    }

    /// Restores the settings, unless another launch needs them.
    ///
    /// # Errors
    /// When one cannot be restored.
    pub fn end(mut self) -> Result<(), KnobError> {
        self.0.take().map_or(Ok(()), |shared| shared.release())
    }
}

impl Drop for HeldKnobs {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(|shared| shared.release()) {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::{TempDir, tempdir};

    use super::*;

    struct TwoSettings {
        dir: TempDir,
        shared: Arc<SharedKnobs>,
    }

    /// Two settings with the value `old`.
    fn two_settings() -> TwoSettings {
        let dir = tempdir().unwrap();
        for name in ["first", "second"] {
            fs::write(dir.path().join(name), "old\n").unwrap();
        }
        let shared = SharedKnobs::new(&dir.path().join("run"), |_, _| None);
        TwoSettings { dir, shared }
    }

    impl TwoSettings {
        fn hold(&self, name: &str) -> Option<HeldKnobs> {
            let setting = (self.dir.path().join(name), "new".to_owned());
            self.shared.hold(&[setting], None).unwrap()
        }

        fn values(&self) -> [String; 2] {
            ["first", "second"].map(|name| {
                let value = fs::read_to_string(self.dir.path().join(name)).unwrap();
                value.trim().to_owned()
            })
        }
    }

    #[test]
    fn settings_stay_until_the_last_launch_that_needs_any_has_ended() {
        let scene = two_settings();
        let first = scene.hold("first").unwrap();
        assert_eq!(scene.values(), ["new", "old"]);
        let second = scene.hold("second").unwrap();
        let again = scene.hold("first").unwrap();
        drop(first);
        second.end().unwrap();
        assert_eq!(scene.values(), ["new", "new"]);
        drop(again);
        assert_eq!(scene.values(), ["old", "old"]);
        // And again.
        scene.hold("second").unwrap().end().unwrap();
        assert_eq!(scene.values(), ["old", "old"]);
    }

    #[test]
    fn what_somebody_else_sets_meanwhile_is_kept() {
        let scene = two_settings();
        let held = scene.hold("first").unwrap();
        fs::write(scene.dir.path().join("first"), "theirs").unwrap();
        held.end().unwrap();
        assert_eq!(scene.values(), ["theirs", "old"]);
    }

    #[test]
    fn nothing_changes_while_another_process_has_the_guard() {
        let scene = two_settings();
        let other = Knobs::acquire(&scene.dir.path().join("run"), None).unwrap();
        assert!(scene.hold("first").is_none());
        drop(other);
        assert!(scene.hold("first").is_some());
    }

    #[test]
    fn a_setting_that_cannot_be_made_leaves_none_behind() {
        let scene = two_settings();
        let path = |name| scene.dir.path().join(name);
        let settings = [path("first"), path("missing")].map(|path| (path, "new".to_owned()));
        assert!(scene.shared.hold(&settings, None).is_err());
        assert_eq!(scene.values(), ["old", "old"]);
        assert!(scene.hold("second").is_some());
    }

    #[test]
    fn a_keeper_that_is_wanted_first_is_started_before_any_change() {
        let dir = tempdir().unwrap();
        let nowhere: KeeperCommand = |run_dir, _| Some(Command::new(run_dir.join("no program")));
        let shared = SharedKnobs::new(&dir.path().join("run"), nowhere);
        let settings = [(dir.path().join("missing"), "new".to_owned())];
        let hold = |keeper| shared.hold(&settings, keeper).err().unwrap();
        assert!(matches!(hold(None), KnobError::File { .. }));
        let limit = Some(Duration::from_secs(1));
        assert!(matches!(hold(limit), KnobError::Keeper(_)));
    }

    #[test]
    fn closed_settings_are_restored_and_stay_so() {
        let scene = two_settings();
        let held = scene.hold("first").unwrap();
        scene.shared.close().unwrap();
        assert_eq!(scene.values(), ["old", "old"]);
        assert!(scene.hold("first").is_none());
        held.end().unwrap();
        assert_eq!(scene.values(), ["old", "old"]);
    }
}
