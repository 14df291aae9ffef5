//! The thread that serves the bus.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::fdo::{RequestNameFlags, RequestNameReply};
use zbus::message::Type;
use zbus::object_server::InterfaceRef;
use zbus::{Connection, MatchRule, MessageStream};

use super::address::Address;
use super::error::BusError;
use super::interface::{Interface, InterfaceSignals};
use super::{NAME, PATH};
use crate::service::control::{LaunchSignal, Post, plan_word};

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
    dropped: AtomicU64,
    connected: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Item {
    Launch(Box<LaunchSignal>),
    Mode,
}

/// Connects to the bus, takes the service's name and passes calls on by `post` from then on. A call may
/// come before this returns: it waits for its answer, and the bus's thread does not.
///
/// # Errors
/// When there is no bus, it does not let us own the name (only root may), or another service has it.
pub fn serve(post: Post, address: Address) -> Result<Bus, BusError> {
    let (queue, items) = mpsc::channel(QUEUE);
    let (send_ready, ready) = sync_channel(1);
    let connected = Arc::new(AtomicBool::new(true));
    let still_connected = Arc::clone(&connected);
    let thread = thread::Builder::new()
        .name("pf-bus".to_owned())
        .spawn(move || {
            let started = runtime().map_err(BusError::from).and_then(|runtime| {
                match runtime.block_on(start(Interface::new(post), &address)) {
                    Ok(served) => Ok((runtime, served)),
                    Err(error) => {
                        // A connect(2) that hangs must not be waited for.
                        runtime.shutdown_background();
                        Err(error)
                    }
                }
            });
            match started {
                Ok((runtime, served)) => {
                    // `serve` is waiting to receive it.
                    let _ = send_ready.send(Ok(()));
                    runtime.block_on(run(served, items));
                    still_connected.store(false, Ordering::Relaxed);
                }
                Err(error) => {
                    let _ = send_ready.send(Err(error));
                }
            }
        })?;
    match ready.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(io::Error::other("its thread died").into()),
    }
    Ok(Bus {
        queue: Some(queue),
        dropped: AtomicU64::new(0),
        connected,
        thread: Some(thread),
    })
}

impl Bus {
    /// Sends the signal to all listeners. Never waits: a signal that the queue has no room for is
    /// dropped and counted.
    pub fn emit(&self, signal: LaunchSignal) {
        self.send(Item::Launch(Box::new(signal)));
    }

    /// Sends the signal of the property `Mode`, for a change that no call on the bus has made.
    pub fn mode_changed(&self) {
        self.send(Item::Mode);
    }

    /// Signals that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the connection still stands. A bus that was restarted does not know the service until it is
    /// served anew.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    fn send(&self, item: Item) {
        let sent = self
            .queue
            .as_ref()
            .is_some_and(|queue| queue.try_send(item).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
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

/// The connection, while it is served.
struct Served {
    /// Open as long as this value lives.
    _connection: Connection,
    interface: InterfaceRef<Interface>,
    /// A stream that ends with the connection.
    end: MessageStream,
}

async fn start(interface: Interface, address: &Address) -> Result<Served, BusError> {
    let builder = address.builder()?.serve_at(PATH, interface)?;
    let connection = address.connect(builder, LIMIT).await?;
    let flags = RequestNameFlags::DoNotQueue;
    match connection.request_name_with_flags(NAME, flags.into()).await {
        Ok(RequestNameReply::PrimaryOwner) => {}
        Ok(_) | Err(zbus::Error::NameTaken) => return Err(BusError::NameTaken),
        Err(error) => return Err(error.into()),
    }
    let interface = connection.object_server().interface(PATH).await?;
    // No message matches, but the stream ends with an error when the connection does.
    let nothing = MatchRule::builder()
        .msg_type(Type::Error)
        .path(PATH)?
        .build();
    let end = MessageStream::for_match_rule(nothing, &connection, Some(1)).await?;
    Ok(Served {
        _connection: connection,
        interface,
        end,
    })
}

/// Sends signals until the service or the bus ends; zbus serves calls beside it.
async fn run(mut served: Served, mut items: mpsc::Receiver<Item>) {
    loop {
        let next = {
            let mut receive = pin!(items.recv());
            let end = &mut served.end;
            poll_fn(|context| {
                if ended(end, context) {
                    return Poll::Ready(None);
                }
                receive.as_mut().poll(context)
            })
            .await
        };
        let Some(item) = next else {
            return;
        };
        match timeout(LIMIT, tell(&served.interface, item)).await {
            Ok(Ok(())) => {}
            // The connection is broken: the end of the service must not wait for it.
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

fn ended(end: &mut MessageStream, context: &mut Context<'_>) -> bool {
    loop {
        match Pin::new(&mut *end).poll_next(context) {
            Poll::Pending => return false,
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_)) | None) => return true,
        }
    }
}

async fn tell(interface: &InterfaceRef<Interface>, item: Item) -> zbus::Result<()> {
    let emitter = interface.signal_emitter();
    match item {
        Item::Launch(signal) => match *signal {
            LaunchSignal::Begun { app, pid, plan } => {
                emitter.launch_begun(&app, pid, plan_word(plan)).await
            }
            LaunchSignal::Ended(launch) => emitter.launch_ended(launch).await,
        },
        Item::Mode => interface.get().await.mode_changed(emitter).await,
    }
}
