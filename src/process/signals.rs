//! What a process inherits about signals, and signalfd(2).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What a process inherits about signals and we change: to be put back in the app, and in us when
/// supervision ends.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    mask: SigSet,
    child: SigAction,
    pipe_ignored: bool,
}

/// Whether SIGPIPE was ignored when this program was executed. Rust's runtime ignores it before `main`
/// without saving the earlier disposition, so this is read before the runtime starts.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_pipe() {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks, and `action` has room for the answer, which is there on success.
    let is_ignored = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    };
    PIPE_IGNORED.store(is_ignored, Ordering::Relaxed);
}

// SAFETY: the loader calls each function pointer of this section once, before `main`; extra
// arguments do not disturb a C function without parameters, and all that it does is one sigaction(2)
// and an atomic store.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

impl Inherited {
    /// Blocks `signals` in this thread, where a non-blocking signalfd reads them from then on, and takes
    /// SIGCHLD back to its default so that the kernel does not reap children by itself. Returns what was
    /// there.
    pub fn replace(signals: &[c_int]) -> io::Result<(Inherited, SignalFd)> {
        // Named here, so that no linker leaves it out.
        std::hint::black_box(&NOTE_PIPE);
        let signals = signals.iter().map(|&signal| Signal::try_from(signal));
        let signals = signals.collect::<Result<SigSet, _>>()?;
        let fd = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let inherited = Inherited {
            mask: signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?,
            child: set(Signal::SIGCHLD, SigHandler::SigDfl)?,
            pipe_ignored: PIPE_IGNORED.load(Ordering::Relaxed),
        };
        Ok((inherited, fd))
    }

    /// Puts SIGCHLD and the mask back in this thread.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: this very action was in force before.
        unsafe { sigaction(Signal::SIGCHLD, &self.child) }?;
        Ok(self.mask.thread_set_mask()?)
    }

    /// Puts the signals back in a process about to execute another program, SIGPIPE included.
    /// Async-signal-safe.
    pub fn restore_for_exec(&self) -> io::Result<()> {
        let pipe = if self.pipe_ignored {
            SigHandler::SigIgn
        } else {
            SigHandler::SigDfl
        };
        set(Signal::SIGPIPE, pipe)?;
        self.restore()
    }
}

/// Sets a disposition that is no function, and returns the former action.
fn set(signal: Signal, handler: SigHandler) -> nix::Result<SigAction> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: no code of ours runs when the signal comes.
    unsafe { sigaction(signal, &action) }
}

/// Dies by `signal`, whatever disposition it has. Returns only if it does not end a process.
pub(super) fn die_by(signal: c_int) {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and numbers out of range leave it as it is; no
    // disposition is a function.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}
