//! What tracing needs, and which of it is missing here.

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;

/// The kernel's type information.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's lockdown modes, the one in force in brackets.
pub const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Tracing failed, or the kernel or a missing privilege prevents it.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Not root.
    #[error("tracing a launch needs root: run it with sudo")]
    NotRoot,
    /// The kernel was built without type information.
    #[error(
        "this kernel has no BTF ({VMLINUX_BTF} is missing); it needs CONFIG_DEBUG_INFO_BTF=y. \
         To see: grep CONFIG_DEBUG_INFO_BTF /boot/config-$(uname -r)"
    )]
    NoBtf,
    /// The kernel has no bpf(2).
    #[error(
        "this kernel has no BPF; it needs CONFIG_BPF_SYSCALL=y. \
         To see: grep CONFIG_BPF_SYSCALL /boot/config-$(uname -r)"
    )]
    NoBpf,
    /// A capability is missing.
    #[error(
        "BPF is refused because this process lacks {missing} (a container?). \
         To see: grep CapEff /proc/self/status"
    )]
    NoCapability {
        /// Names of the missing capabilities.
        missing: String,
    },
    /// The kernel is locked down against BPF.
    #[error(
        "BPF is refused by kernel lockdown in `confidentiality` mode. \
         To see: cat /sys/kernel/security/lockdown"
    )]
    Lockdown,
    /// The kernel does not have a tracepoint that learning cannot do without.
    #[error(
        "this kernel has no tracepoint {0}; Linux 6.0 or later with CONFIG_TRACEPOINTS=y is needed. \
         To see: uname -r"
    )]
    NoTracepoint(&'static str),
    /// BPF refused for another reason.
    #[error("{what} failed: {error}{detail}")]
    Bpf {
        /// What was being done.
        what: &'static str,
        /// What the kernel or libbpf said.
        error: String,
        /// The verifier's last word, or libbpf's last warning, if there was one.
        detail: String,
    },
    /// A system call failed.
    #[error("{what} failed: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl TraceError {
    /// Whether this system lacks something, so that trying again changes nothing.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, TraceError::Bpf { .. } | TraceError::System { .. })
    }

    /// An error of a system call; `what` was being done.
    pub fn system(what: &'static str, error: io::Error) -> Self {
        TraceError::System { what, error }
    }

    /// An error of libbpf: looks for the usual causes, so that the message can name what is missing.
    pub fn from_bpf(what: &'static str, error: libbpf_rs::Error) -> Self {
        if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            if let Some(missing) = missing_capabilities() {
                return TraceError::NoCapability { missing };
            }
            if locked_down() {
                return TraceError::Lockdown;
            }
        }
        let detail = super::libbpf_log::take_reason()
            .map(|warning| format!(" ({warning})"))
            .unwrap_or_default();
        TraceError::Bpf {
            what,
            error: format!("{error:#}"),
            detail,
        }
    }
}

/// Checks what tracing needs, as far as that is possible before anything is loaded.
///
/// # Errors
/// What is missing.
pub fn check() -> Result<(), TraceError> {
    if !rustix::process::geteuid().is_root() {
        return Err(TraceError::NotRoot);
    }
    if !bpf_syscall_exists() {
        return Err(TraceError::NoBpf);
    }
    if !Path::new(VMLINUX_BTF).exists() {
        return Err(TraceError::NoBtf);
    }
    Ok(())
}

/// Whether the kernel has bpf(2): an impossible command is answered with EINVAL or EPERM where the
/// call exists.
pub fn bpf_syscall_exists() -> bool {
    // SAFETY: no pointer is passed; the command number does not exist.
    let result = unsafe { libc::syscall(libc::SYS_bpf, -1, 0, 0) };
    result >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Names the capabilities that loading and attaching our programs needs and that are not effective.
/// CAP_SYS_ADMIN holds the two others.
fn missing_capabilities() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    missing_in(effective_set(&status)?)
}

fn effective_set(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing_in(effective: u64) -> Option<String> {
    const CAP_SYS_ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
    let has = |bit: u32| effective & (1 << bit) != 0;
    if has(CAP_SYS_ADMIN) {
        return None;
    }
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| *name)
        .collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

fn locked_down() -> bool {
    fs::read_to_string(LOCKDOWN).is_ok_and(|modes| modes.contains("[confidentiality]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(missing_in(1 << 21), None);
        assert_eq!(missing_in(1 << 38 | 1 << 39), None);
        assert_eq!(missing_in(1 << 39).as_deref(), Some("CAP_PERFMON"));
        assert_eq!(missing_in(0).as_deref(), Some("CAP_PERFMON and CAP_BPF"));
    }

    #[test]
    fn effective_set_is_read_from_proc() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(effective_set(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective_set("Name:\tx\n"), None);
    }
}
