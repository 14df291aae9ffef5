//! Where tracefs is mounted: system-call tracepoints are attached by the numbers that it lists.

use std::path::Path;

/// Mount points of tracefs, as libbpf looks for it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Whether the entry of this system call has a tracepoint that can be attached to: that takes tracefs and
/// CONFIG_FTRACE_SYSCALLS.
pub fn has_syscall_entry(name: &str) -> bool {
    PLACES.iter().any(|place| {
        Path::new(place)
            .join(format!("events/syscalls/sys_enter_{name}/id"))
            .exists()
    })
}
