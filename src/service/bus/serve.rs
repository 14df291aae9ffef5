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
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::fdo::{RequestNameFlags, RequestNameReply};
use zbus::message::Type;
use zbus::object_server::InterfaceRef;
use zbus::{Connection, MatchRule, MessageStream};

use super::address::Address;
use super::backend::Backend;
use super::error::BusError;
use super::face::{Face, FaceSignals};
use super::types::{Event, plan_word};
use super::{NAME, PATH};

/// Events that may wait for the bus: as many as launches can begin while it does not answer.
const QUEUE: usize = 256;

/// How long the bus may take to let us in, and to take a signal.
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
    Event(Box<Event>),
    Mode,
}

/// Connects to the bus, takes the service's name and serves calls from then on.
///
/// # Errors
/// When there is no bus, it does not let us own the name (only root may), or another service has it.
pub fn serve(backend: Arc<dyn Backend>, address: Address) -> Result<Bus, BusError> {
    let (queue, items) = mpsc::channel(QUEUE);
    let (send_ready, ready) = sync_channel(1);
    let connected = Arc::new(AtomicBool::new(true));
    let still_connected = Arc::clone(&connected);
    let (begin, serving) = watch::channel(false);
    let thread = thread::Builder::new()
        .name("pf-bus".to_owned())
        .spawn(move || {
            let outcome = runtime().map_err(BusError::from).and_then(|runtime| {
                match runtime.block_on(start(Face::new(backend, serving), &address)) {
                    Ok(served) => Ok((runtime, served)),
                    Err(error) => {
                        // Does not wait for a connect(2) that hangs.
                        runtime.shutdown_background();
                        Err(error)
                    }
                }
            });
            match outcome {
                Ok((runtime, served)) => {
                    // `serve` waits for it.
                    let _ = send_ready.send(Ok(()));
                    begin.send_replace(true);
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
    /// Tells everybody who listens. Never waits: what the queue has no room for is dropped and
    /// counted.
    pub fn emit(&self, event: Event) {
        self.send(Item::Event(Box::new(event)));
    }

    /// Says that the mode has changed other than by a call on the bus.
    pub fn mode_changed(&self) {
        self.send(Item::Mode);
    }

    /// Events that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the bus is still there. Once it is gone (it was restarted, usually), only serving anew
    /// brings the service back.
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
    /// Waits until what was emitted has been sent, and for a call that the backend is busy with.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed by then.
            let _ = thread.join();
        }
    }
}

/// All on one thread, but for connect(2), which zbus leaves to another; that one ends right after it.
pub(super) fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::from_millis(1))
        .build()
}

/// What is served, and how to see that it no longer is.
struct Served {
    // Keeps it open.
    _connection: Connection,
    face: InterfaceRef<Face>,
    /// Ends with the connection.
    end: MessageStream,
}

async fn start(face: Face, address: &Address) -> Result<Served, BusError> {
    let builder = address.builder()?.serve_at(PATH, face)?;
    let connection = address.connect(builder, LIMIT).await?;
    let flags = RequestNameFlags::DoNotQueue;
    match connection.request_name_with_flags(NAME, flags.into()).await {
        Ok(RequestNameReply::PrimaryOwner) => {}
        Ok(_) | Err(zbus::Error::NameTaken) => return Err(BusError::NameTaken),
        Err(error) => return Err(error.into()),
    }
    let face = connection.object_server().interface(PATH).await?;
    // Matches no message, and is told of errors nevertheless.
    let nothing = MatchRule::builder()
        .msg_type(Type::Error)
        .path(PATH)?
        .build();
    let end = MessageStream::for_match_rule(nothing, &connection, Some(1)).await?;
    Ok(Served {
        _connection: connection,
        face,
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
        match timeout(LIMIT, tell(&served.face, item)).await {
            Ok(Ok(())) => {}
            // Nothing can be sent any more, and nobody is to wait for that when the service ends.
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

async fn tell(face: &InterfaceRef<Face>, item: Item) -> zbus::Result<()> {
    let emitter = face.signal_emitter();
    match item {
        Item::Event(event) => match *event {
            Event::Begun { app, pid, plan } => {
                emitter.launch_begun(&app, pid, plan_word(plan)).await
            }
            Event::Ended(launch) => emitter.launch_ended(launch).await,
        },
        Item::Mode => face.get().await.mode_changed(emitter).await,
    }
}
