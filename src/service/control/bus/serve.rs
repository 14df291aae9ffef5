//! The thread that serves the bus.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zbus::fdo::{RequestNameFlags, RequestNameReply};
use zbus::names::UniqueName;
use zbus::object_server::InterfaceRef;

use super::error::{BusError, sendable};
use super::interface::{Interface, InterfaceSignals};
use super::{Address, NAME, PATH};
use crate::service::control::{AppChange, PendingChanges, Post, ServiceSignal, word};

/// Signals that may wait for the bus: as many as launches can begin while it does not answer.
const QUEUE: usize = 256;

/// How long the bus may take to accept the connection, and each signal.
const LIMIT: Duration = Duration::from_secs(10);

/// How long the end of the service waits for signals that are queued: a bus that does not answer must not keep it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two rounds of changes of apps, each of a few for each user.
const ROUND_INTERVAL: Duration = Duration::from_millis(250);

/// The service on the bus, until this is dropped.
///
/// One thread of its own, `pf-bus`, serves all calls; between them it sleeps without a timer.
pub struct Bus {
    /// `None` only while being dropped.
    queue: Option<mpsc::Sender<Item>>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<()>>,
    work: Arc<BusWork>,
}

/// What the event loop and the bus's thread share.
#[derive(Default)]
struct BusWork {
    /// Whether an item was served since the last look.
    has_worked: AtomicBool,
    /// Locked for some microseconds at a time.
    changes: Mutex<PendingChanges>,
}

impl BusWork {
    fn changes(&self) -> MutexGuard<'_, PendingChanges> {
        // Nothing can panic while it is locked.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Item {
    Launch(ServiceSignal),
    Mode,
    /// Nothing: show that the thread works, and look at the changes of apps.
    Answer,
}

/// Connects to the bus, takes the service's name and passes calls on by `post` from then on. A call may
/// come before this returns: it waits for its answer, and the bus's thread does not.
///
/// # Errors
/// When there is no bus, it does not let us own the name (only root may), or another service has it.
pub fn serve(post: Post, address: &Address) -> Result<Bus, BusError> {
    let runtime = runtime()?;
    let interface = match runtime.block_on(start(Interface::new(post), address)) {
        Ok(interface) => interface,
        Err(error) => {
            // A connect(2) that hangs must not be waited for.
            runtime.shutdown_background();
            return Err(error);
        }
    };
    let (queue, items) = mpsc::channel(QUEUE);
    let work = Arc::new(BusWork::default());
    let of_thread = Arc::clone(&work);
    let (alive, ended) = channel();
    thread::Builder::new()
        .name("pf-bus".to_owned())
        .spawn(move || {
            // Dropped with the thread, also if it panics.
            let _alive: Sender<()> = alive;
            runtime.block_on(run(interface, items, &of_thread));
        })?;
    Ok(Bus {
        queue: Some(queue),
        ended: Mutex::new(ended),
        work,
    })
}

impl Bus {
    /// Sends the signal to the listeners who may know of the launch or app. Never waits: false for a signal that is
    /// dropped because the queue has no room, or the connection has ended. Changes of apps have a room of their own.
    pub fn emit(&self, signal: ServiceSignal) -> bool {
        let ServiceSignal::AppChanged(change) = signal else {
            return self.send(Item::Launch(signal));
        };
        let is_open = self.queue.as_ref().is_some_and(|it| !it.is_closed());
        if is_open {
            self.work.changes().put(change);
            // After the last item of a full queue, the thread looks at the changes, too.
            self.send(Item::Answer);
        }
        is_open
    }

    /// Sends the signal of the property `Mode`. As [`Bus::emit`].
    pub fn mode_changed(&self) -> bool {
        self.send(Item::Mode)
    }

    /// Asks the thread to show that it works.
    pub fn ask(&self) {
        // A full queue is work enough.
        self.send(Item::Answer);
    }

    /// Whether the thread has done anything since the last call. One that has ended, since the bus is gone, is not
    /// stuck.
    pub fn has_answered(&self) -> bool {
        let has_ended = self.ended().try_recv() == Err(TryRecvError::Disconnected);
        self.work.has_worked.swap(false, Ordering::AcqRel) || has_ended
    }

    fn ended(&self) -> MutexGuard<'_, Receiver<()>> {
        // Nothing can panic while it is locked.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, item: Item) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.try_send(item).is_ok())
    }
}

impl Drop for Bus {
    /// Waits until the queued signals have been sent, for a second at most.
    fn drop(&mut self) {
        self.queue = None;
        // Nothing is ever sent: it ends with the thread, or the time is over.
        let _ = self.ended().recv_timeout(PATIENCE);
    }
}

/// Everything runs on one thread, except connect(2): zbus calls it on a second thread, which ends right
/// afterwards.
pub(super) fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::from_millis(1))
        .build()
}

/// Connects to the bus and takes the name. The connection is open as long as the result lives.
async fn start(
    interface: Interface,
    address: &Address,
) -> Result<InterfaceRef<Interface>, BusError> {
    let builder = address.builder()?.serve_at(PATH, interface)?;
    let connection = address.connect(builder, LIMIT).await?;
    let flags = RequestNameFlags::DoNotQueue;
    match connection.request_name_with_flags(NAME, flags.into()).await {
        Ok(RequestNameReply::PrimaryOwner) => {}
        Ok(_) | Err(zbus::Error::NameTaken) => return Err(BusError::NameTaken),
        Err(error) => return Err(error.into()),
    }
    Ok(connection.object_server().interface(PATH).await?)
}

/// Sends signals until the service ends; zbus serves calls beside it.
async fn run(interface: InterfaceRef<Interface>, mut items: mpsc::Receiver<Item>, work: &BusWork) {
    let mut next_round = Instant::now();
    loop {
        let until_round = next_round.saturating_duration_since(Instant::now());
        let is_pending = !work.changes().is_empty();
        let received = match is_pending {
            // Launches that begin all the time do not hold changes up.
            true if until_round.is_zero() => None,
            true => timeout(until_round, items.recv()).await.ok(),
            false => Some(items.recv().await),
        };
        let sent = match received {
            Some(Some(item)) => timeout(LIMIT, send(&interface, item)).await,
            Some(None) => {
                let left = send_all_changes(&interface, work);
                // The end of the service does not wait for a bus that is slow.
                let _ = timeout(LIMIT, left).await;
                return;
            }
            None => {
                next_round = Instant::now() + ROUND_INTERVAL;
                timeout(LIMIT, send_changes(&interface, work)).await
            }
        };
        match sent {
            Ok(Ok(())) => {}
            // The connection is broken.
            Ok(Err(_)) => return,
            // The end of the service must not wait for a bus that is slow, or for callers that keep it busy.
            Err(_) if items.is_closed() => return,
            // The signal is lost, and calls are answered nevertheless.
            Err(_) => {}
        }
        work.has_worked.store(true, Ordering::Release);
    }
}

async fn send_all_changes(interface: &InterfaceRef<Interface>, work: &BusWork) -> zbus::Result<()> {
    while !work.changes().is_empty() {
        send_changes(interface, work).await?;
    }
    Ok(())
}

/// Sends a round of changes of apps.
async fn send_changes(interface: &InterfaceRef<Interface>, work: &BusWork) -> zbus::Result<()> {
    let emitter = interface.signal_emitter();
    let round = work.changes().take_round();
    for (uid, changes) in round {
        for listener in listeners_of(interface, uid).await? {
            let emitter = emitter.clone().set_destination(listener.into());
            for change in &changes {
                emitter.app_changed(sendable_change(change)).await?;
            }
        }
    }
    Ok(())
}

fn sendable_change(change: &AppChange) -> AppChange {
    AppChange {
        app: sendable(&change.app),
        name: sendable(&change.name),
        phase: sendable(&change.phase),
        why: sendable(&change.why),
        added_by: sendable(&change.added_by),
        ..*change
    }
}

/// The connections that get the signals of this user's launches and apps.
async fn listeners_of(
    interface: &InterfaceRef<Interface>,
    uid: u32,
) -> zbus::Result<Vec<UniqueName<'static>>> {
    let connection = interface.signal_emitter().connection();
    let interface = interface.get().await;
    let mut listeners = interface.listeners.lock().await;
    listeners.of_user(connection, uid).await
}

async fn send(interface: &InterfaceRef<Interface>, item: Item) -> zbus::Result<()> {
    let emitter = interface.signal_emitter();
    let signal = match item {
        Item::Launch(signal) => signal,
        Item::Answer => return Ok(()),
        Item::Mode => return interface.get().await.mode_changed(emitter).await,
    };
    for listener in listeners_of(interface, signal.uid()).await? {
        let emitter = emitter.clone().set_destination(listener.into());
        match &signal {
            ServiceSignal::Begun { app, pid, plan } => {
                let plan = word(plan);
                emitter.launch_begun(&app.id, app.uid, *pid, &plan).await?;
            }
            ServiceSignal::Ended(launch) => emitter.launch_ended(launch.clone()).await?,
            ServiceSignal::AppChanged(change) => {
                emitter.app_changed(sendable_change(change)).await?
            }
        }
    }
    Ok(())
}
