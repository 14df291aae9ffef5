//! Opening and loading the BPF object.
//!
//! Every reader (`Watch`, `Tracer`, `Meter`) opens the same object and loads those of its programs that
//! it needs.

use std::mem::MaybeUninit;
use std::sync::Mutex;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, OpenObject, PrintLevel, RingBuffer, RingBufferBuilder};

use super::abilities::{TraceError, check};
use super::globals::Globals;
use super::skel::{OpenParalfetchSkel, ParalfetchSkel, ParalfetchSkelBuilder};

/// Memory that a loaded BPF object lives in; to be kept by the caller while the object is used.
pub struct Storage(Box<MaybeUninit<OpenObject>>);

impl Storage {
    /// An empty storage, for one object.
    #[expect(
        clippy::new_without_default,
        reason = "a default storage makes no sense to ask for"
    )]
    pub fn new() -> Self {
        Storage(Box::new(MaybeUninit::uninit()))
    }

    /// The memory, to open an object in: for callers that attach BPF programs of their own.
    pub fn get(&mut self) -> &mut MaybeUninit<OpenObject> {
        &mut self.0
    }
}

/// Opens the object. No program is selected to be loaded yet.
///
/// # Errors
/// Says which privilege or kernel ability is missing.
pub(super) fn open(storage: &mut Storage) -> Result<OpenParalfetchSkel<'_>, TraceError> {
    check()?;
    capture_warnings();
    ParalfetchSkelBuilder::default()
        .open(storage.get())
        .map_err(|error| TraceError::from_bpf("opening the BPF object", error))
}

/// Loads the selected programs, and takes over the globals that they share with us.
///
/// # Errors
/// Says which privilege or kernel ability is missing.
pub(super) fn load<'obj>(
    open: OpenParalfetchSkel<'obj>,
) -> Result<(ParalfetchSkel<'obj>, Globals<'obj>), TraceError> {
    let mut skel = open
        .load()
        .map_err(|error| TraceError::from_bpf("loading the BPF programs", error))?;
    let globals = skel.maps.bss_data.take();
    let globals = globals.expect("a loaded object with globals has its .bss mapped");
    Ok((skel, Globals::new(globals)))
}

/// Attaches the loaded programs.
///
/// # Errors
/// When the kernel refuses one.
pub(super) fn attach(skel: &mut ParalfetchSkel<'_>) -> Result<(), TraceError> {
    skel.attach()
        .map_err(|error| TraceError::from_bpf("attaching the BPF programs", error))
}

/// A reader of a ring buffer, which hands each record to `take`.
///
/// # Errors
/// When the ring buffer cannot be mapped.
pub(super) fn ring_reader(
    ring: &dyn MapCore,
    mut take: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, TraceError> {
    let build = || {
        let mut builder = RingBufferBuilder::new();
        builder.add(ring, move |record| {
            take(record);
            0
        })?;
        builder.build()
    };
    build().map_err(|error| TraceError::from_bpf("reading the ring buffer", error))
}

static LAST_WARNING: Mutex<Option<String>> = Mutex::new(None);

/// Keeps libbpf from writing to the terminal; its last warning becomes part of the error.
fn capture_warnings() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut last) = LAST_WARNING.lock() {
            *last = Some(message.trim().to_owned());
        }
    })));
}

pub(super) fn last_warning() -> Option<String> {
    LAST_WARNING.lock().ok()?.take()
}
