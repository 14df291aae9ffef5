//! `run` waits for the first region of a schedule on drives whose I/O scheduler serves an app that reads before a prefetch.

use std::fs;
use std::path::PathBuf;

use paralfetch::drive::drop_caches;
use paralfetch::model::Hold;
use paralfetch::profile::Store;

use crate::reads::profile;
use crate::root::{Root, our_lines};
use crate::set_up;

/// The I/O scheduler of a drive; it gets back the one that it had when this is dropped.
struct Scheduler {
    knob: PathBuf,
    before: String,
}

impl Scheduler {
    fn of(root: &Root) -> Scheduler {
        let name = root.image.device().file_name().unwrap().to_owned();
        let knob = PathBuf::from("/sys/block")
            .join(name)
            .join("queue/scheduler");
        let text = fs::read_to_string(&knob).unwrap();
        let (_, behind) = text.split_once('[').unwrap();
        let (before, _) = behind.split_once(']').unwrap();
        Scheduler {
            before: before.to_owned(),
            knob,
        }
    }

    /// False, with the reason, where the kernel does not have it.
    fn choose(&self, name: &str) -> bool {
        match fs::write(&self.knob, name) {
            Ok(()) => true,
            Err(error) => {
                let required = std::env::var_os("PARALFETCH_REQUIRE_PRIVILEGED");
                assert!(required.is_none_or(|value| value != "1"), "{name}: {error}");
                eprintln!("SKIPPED: there is no I/O scheduler {name}: {error}");
                false
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = fs::write(&self.knob, &self.before);
    }
}

#[test]
fn an_app_is_started_once_its_first_region_has_arrived() {
    let Some((root, _turn)) = set_up() else {
        return;
    };
    root.learn(&[], &Root::READ_ALL);
    let mut learned = profile(&root, "sh");
    learned.hold = Some(Hold {
        entries: learned.entries.len() as u32,
        most_ms: 5_000,
    });
    let store = Store::open(root.state.path()).unwrap();
    store.save(&learned).unwrap();
    let scheduler = Scheduler::of(&root);
    let launch = || {
        drop_caches().unwrap();
        let command = root.paralfetch(&["run", "--verbose"], &Root::READ_ALL);
        let output = { command }.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        our_lines(&output).join("\n")
    };
    for (name, is_held) in [("bfq", true), ("mq-deadline", false)] {
        if !scheduler.choose(name) {
            return;
        }
        let said = launch();
        assert!(said.contains("prefetched"), "{said}");
        assert_eq!(said.contains("held the app for"), is_held, "{name}: {said}");
    }
}
