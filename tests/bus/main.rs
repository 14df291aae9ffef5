//! The D-Bus interface on a private bus with the policy that is shipped: who may read and change what,
//! introspection, signals, bounds, and what an idle service costs.

mod calls;
mod cli;
mod daemon;
mod fakes;
mod idle;
mod notifications;
mod permissions;
mod signals;

use std::sync::Arc;

use paralfetch::service::control::bus::{Bus, Client, serve};

use daemon::Daemon;
use fakes::{Fake, post};

/// A private bus with the service on it, whose event loop is a fake.
struct Served {
    // Dropped in this order.
    bus: Bus,
    fake: Arc<Fake>,
    daemon: Daemon,
}

impl Served {
    /// `None` where the machine does not allow it.
    fn start() -> Option<Served> {
        let daemon = Daemon::start()?;
        let fake = Fake::shared();
        let bus = serve(post(&fake), daemon.address()).unwrap();
        Some(Served { bus, fake, daemon })
    }

    fn client(&self) -> Client {
        Client::connect(self.daemon.address())
            .unwrap()
            .expect("the service runs")
    }
}

/// Runs `work` in a thread of the ordinary user who has an app.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    as_user(fakes::USER, work)
}

/// Runs `work` in a thread of an unprivileged user: in Linux, each thread has user ids of its own.
fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
