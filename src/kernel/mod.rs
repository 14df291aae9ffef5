//! Watching launches in the kernel: the BPF object (`bpf/paralfetch.bpf.c`, whose head explains it) and the
//! readers of its events.
//!
//! [`Watch`] sees launches and counts what they cost, for the service. [`Tracer`] records which pages a
//! launch needs, for learning. [`Meter`] counts the read requests of one launch, for benchmarks. A process
//! loads the object once: the recorders that [`Watch`] has are of the same object, and programs that cost
//! something are attached while they are needed.

mod abilities;
mod event;
mod globals;
mod hooks;
mod launch_event;
mod launcher;
mod libbpf_log;
mod meter;
mod name_filter;
mod namespaces;
mod object;
mod own_reads;
mod path_record;
mod record_bytes;
mod recorder_pool;
mod skel;
mod slots;
mod syscalls;
mod tables;
mod tracer;
mod watch;

pub use abilities::{LOCKDOWN, TraceError, VMLINUX_BTF, bpf_syscall_exists, check};
pub use event::kernel_dev;
pub use globals::LAUNCHES;
pub use launch_event::{LaunchEvent, LaunchEventKind};
pub use launcher::StartMark;
pub use libbpf_log::capture as capture_libbpf_log;
pub use meter::{CompletionBlock, DeviceReads, Meter, Metered};
pub use namespaces::{MOST_HELD, Namespaces, own_namespace};
pub use recorder_pool::{ClaimedRecorder, RecorderLease, RecorderPool, TraceMode};
pub use slots::WatchedPage;
pub use tracer::{DRAIN_INTERVAL, Trace, TraceExcess, Tracer};
pub use watch::{
    EVERY_USER, LaunchPrograms, LoadedPrograms, ProgramLinks, Watch, WatchOptions, Watched,
    WatchedApps, WatchedName,
};
