//! Watching a launch: the BPF programs (`bpf/`) and the readers of their events.
//!
//! [`Tracer`] records which pages a launch needs, for learning. [`Meter`] counts the read requests of
//! a launch, for benchmarks. Each attaches its programs when it is made and detaches them when it is
//! dropped: outside of these times, tracing costs nothing.

mod abilities;
mod event;
mod exec_gate;
mod hooks;
mod launcher;
mod log;
mod meter;
mod namespaces;
mod path_record;
mod skel;
mod syscalls;
mod tracer;
mod watch;

pub(crate) use event::{kernel_dev, user_dev};
pub(crate) use hooks::has_tracepoint;
pub(crate) use tracer::capture_warnings;

pub use abilities::{LOCKDOWN, TraceError, VMLINUX_BTF, bpf_syscall_exists, check};
pub use exec_gate::{ExecGate, GateError, HeldExec};
pub use launcher::{StartMark, mark_tree_root};
pub use meter::{CompletionBlock, DeviceReads, Meter, Metered};
pub use namespaces::{MOST_HELD, Namespaces, own_namespace};
pub use tracer::{DRAIN_INTERVAL, LoadedTracer, Storage, Trace, TraceMode, Tracer};
pub use watch::{
    CountingWaits, LaunchCounts, LaunchEvent, LaunchEventKind, WaitPrograms, Watch, WatchOptions,
    WatchedName, WatchedPage,
};
