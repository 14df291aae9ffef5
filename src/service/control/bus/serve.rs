//! The thread that serves the bus.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zbus::fdo::{RequestNameFlags, RequestNameReply};
use zbus::object_server::InterfaceRef;

use super::error::BusError;
use super::interface::{Interface, InterfaceSignals};
use super::{Address, NAME, PATH};
use crate::service::control::{LaunchSignal, Post, word};

/// Signals that may wait for the bus: as many as launches can begin while it does not answer.
const QUEUE: usize = 256;

/// How long the bus may take to accept the connection, and each signal.
const LIMIT: Duration = Duration::from_secs(10);

/// The service on the bus, until this is dropped.
///
/// One thread of its own, `pf-bus`, serves all calls; between them it sleeps without a timer.
pub struct Bus {
    /// `None` only while being dropped.
    queue: Option<mpsc::Sender<Item>>,
    thread: Option<JoinHandle<()>>,
    /// Whether an item was served since the last look.
    has_worked: Arc<AtomicBool>,
}

enum Item {
    Launch(LaunchSignal),
    Mode,
    /// Nothing: show that the thread works.
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
    let has_worked = Arc::new(AtomicBool::new(false));
    let works = Arc::clone(&has_worked);
    let thread = thread::Builder::new()
        .name("pf-bus".to_owned())
        .spawn(move || runtime.block_on(run(interface, items, &works)))?;
    Ok(Bus {
        queue: Some(queue),
        thread: Some(thread),
        has_worked,
    })
}

impl Bus {
    /// Sends the signal to the listeners who may know of the launch. Never waits: false for a signal that is dropped because the queue
    /// has no room, or the connection has ended.
    pub fn emit(&self, signal: LaunchSignal) -> bool {
        self.send(Item::Launch(signal))
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
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        self.has_worked.swap(false, Ordering::AcqRel) || has_ended
    }

    fn send(&self, item: Item) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.try_send(item).is_ok())
    }
}

impl Drop for Bus {
    /// Waits until the queued signals have been sent.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
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
async fn run(
    interface: InterfaceRef<Interface>,
    mut items: mpsc::Receiver<Item>,
    works: &AtomicBool,
) {
    while let Some(item) = items.recv().await {
        match timeout(LIMIT, send(&interface, item)).await {
            Ok(Ok(())) => {}
            // The connection is broken.
            Ok(Err(_)) => return,
            // The end of the service must not wait for a bus that is slow, or for callers that keep it busy.
            Err(_) if items.is_closed() => return,
            // The signal is lost, and calls are answered nevertheless.
            Err(_) => {}
        }
        works.store(true, Ordering::Release);
    }
}

async fn send(interface: &InterfaceRef<Interface>, item: Item) -> zbus::Result<()> {
    let emitter = interface.signal_emitter();
    let signal = match item {
        Item::Launch(signal) => signal,
        Item::Answer => return Ok(()),
        Item::Mode => return interface.get().await.mode_changed(emitter).await,
    };
    let listeners = {
        let interface = interface.get().await;
        let mut listeners = interface.listeners.lock().await;
        let uid = signal.uid();
        listeners.of_launch(emitter.connection(), uid).await?
    };
    for listener in listeners {
        let emitter = emitter.clone().set_destination(listener.into());
        match &signal {
            LaunchSignal::Begun { app, pid, plan } => {
                let plan = word(plan);
                emitter.launch_begun(&app.id, app.uid, *pid, &plan).await?;
            }
            LaunchSignal::Ended(launch) => emitter.launch_ended(launch.clone()).await?,
        }
    }
    Ok(())
}
