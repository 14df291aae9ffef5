//! `run` waits for the first region of a schedule on drives whose I/O scheduler serves an app that reads before a prefetch.

use paralfetch::drive::drop_caches;
use paralfetch::model::Hold;
use paralfetch::profile::Store;

use crate::set_up;
use common::reads::profile;
use common::root::{Root, our_lines};
use common::scheduler::Scheduler;

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
