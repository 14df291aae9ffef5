//! Starting the service.

use std::error::Error;

use super::Places;
use super::announce::Announcements;
use super::control::ControlCall;
use super::control::bus::{Address, serve};
use super::event_loop::Service;
use super::mailbox::mailbox;
use super::message::Message;
use super::notify::{NotifyState, notify};
use super::own_process::{keep_heaps_short, raise_priority, release_heap};
use super::packages::Packages;
use super::parts::{Warnings, assemble};
use crate::prefetch::raise_open_files;
use crate::process::signals::Inherited;

/// Signals that the service understands.
const SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Runs the service until a signal asks it to end.
///
/// # Errors
/// Why it cannot start, or go on; [`super::CannotWorkHere`] if that will not change.
pub fn run(places: &Places, bus: Option<Address>) -> Result<(), Box<dyn Error>> {
    keep_heaps_short();
    // Before any thread is started: all of them inherit the mask.
    let (inherited, signals) = Inherited::replace(&SIGNALS)?;
    raise_open_files();
    let mut warnings = Warnings::default();
    let (outbox, inbox) = mailbox()?;
    let mut parts = assemble(places, outbox.clone(), &mut warnings)?;
    let (announcements, cannot) = Announcements::open(&places.run_dir, parts.announcement_filter());
    warnings.0.extend(cannot);
    if let Some(address) = bus {
        let post = move |call: ControlCall| outbox.send(Message::Control(call));
        let served = serve(Box::new(post), &address);
        parts.set_bus(warnings.keep("there is no bus", served));
    }
    let packages = warnings.keep("updates of packages are not heard of", Packages::watch());
    parts.watch_for_launches();
    parts.find_candidates();
    parts.find_seeds(false);
    release_heap();
    // The threads that stay have been started, at the ordinary priority.
    warnings.keep(
        "launches are seen a little late (CAP_SYS_NICE)",
        raise_priority(),
    );
    // Whoever is told that the service is ready finds in the log what it does without.
    for warning in warnings.0 {
        parts.warn(warning);
    }
    notify(NotifyState::Ready);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        apps = parts.apps().registry.records.len(),
        profiles = parts.apps().profiles.len(),
        "ready"
    );
    let mut service = Service::new(parts, inbox, announcements, packages, signals);
    let ended = service.run();
    service.stop();
    inherited.restore()?;
    Ok(ended?)
}
