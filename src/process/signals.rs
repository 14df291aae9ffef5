//! Signal masks, dispositions and signalfd(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

/// What a process inherits about signals and we change: to be put back in the app, and in us when
/// supervision ends.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    mask: libc::sigset_t,
    pipe_ignored: bool,
    child_ignored: bool,
}

/// One signal read from a signalfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub signal: c_int,
    /// As `si_code` of sigaction(2): above 0 if the kernel sent it.
    pub code: c_int,
    /// Sender, if a process sent it.
    pub pid: u32,
}

/// Whether SIGPIPE was ignored when this program was executed. Rust's runtime ignores it before `main`
/// without saving the earlier disposition, so this is read before the runtime starts.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_pipe() {
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

// SAFETY: the loader calls each function pointer of this section once, before `main`; extra
// arguments do not disturb a C function without parameters, and all that it does is one sigaction(2)
// and an atomic store.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

impl Inherited {
    /// Blocks `signals` in this thread, takes SIGCHLD back to its default so that the kernel does
    /// not reap children by itself, and returns what was there.
    pub fn replace(signals: &[c_int]) -> io::Result<Inherited> {
        // Named here, so that no linker leaves it out.
        std::hint::black_box(&NOTE_PIPE);
        let mask = change_mask(libc::SIG_BLOCK, &set(signals))?;
        let child_ignored = is_ignored(libc::SIGCHLD);
        if child_ignored {
            set_ignored(libc::SIGCHLD, false)?;
        }
        Ok(Inherited {
            mask,
            pipe_ignored: PIPE_IGNORED.load(Ordering::Relaxed),
            child_ignored,
        })
    }

    /// Puts SIGCHLD and the mask back in this thread.
    pub fn restore(&self) -> io::Result<()> {
        if self.child_ignored {
            set_ignored(libc::SIGCHLD, true)?;
        }
        change_mask(libc::SIG_SETMASK, &self.mask).map(drop)
    }

    /// The same for a process about to execute another program, SIGPIPE included.
    /// Async-signal-safe.
    pub fn restore_for_exec(&self) -> io::Result<()> {
        set_ignored(libc::SIGPIPE, self.pipe_ignored)?;
        self.restore()
    }
}

/// A non-blocking, close-on-exec signalfd for `signals`.
pub(crate) fn signal_fd(signals: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised, and -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &set(signals), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The next pending signal of a signalfd, if any.
pub(crate) fn read(fd: &OwnedFd) -> io::Result<Option<Received>> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: `info` has room for `size` bytes.
    let count = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if count < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: a signalfd hands out whole records only.
    let info = unsafe { info.assume_init() };
    Ok(Some(Received {
        signal: info.ssi_signo as c_int,
        code: info.ssi_code,
        pid: info.ssi_pid,
    }))
}

/// Dies by `signal`, whatever disposition it has. Returns only if it does not end a process.
pub(super) fn die_by(signal: c_int) -> io::Result<()> {
    if signal != libc::SIGKILL {
        set_ignored(signal, false)?;
    }
    // SAFETY: raise(3) has no conditions.
    unsafe { libc::raise(signal) };
    change_mask(libc::SIG_UNBLOCK, &set(&[signal])).map(drop)
}

fn set(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &signal in signals {
        // SAFETY: the set is initialised; numbers out of range leave it as it is.
        unsafe { libc::sigaddset(&mut set, signal) };
    }
    set
}

fn change_mask(how: c_int, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut old = MaybeUninit::uninit();
    // SAFETY: `set` is initialised, `old` has room for a set.
    let error = unsafe { libc::pthread_sigmask(how, set, old.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: filled in on success.
    Ok(unsafe { old.assume_init() })
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks, and `action` has room for the answer, which is there on success.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Ignores a signal, or takes it back to its default.
fn set_ignored(signal: c_int, ignored: bool) -> io::Result<()> {
    // SAFETY: all zeros is a sigaction with an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: neither disposition is a function, and the old one is not asked for.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
