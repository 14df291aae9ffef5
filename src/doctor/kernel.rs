//! The kernel's abilities.

use std::fs;
use std::io;
use std::path::Path;

use super::AbilityCheck;
use crate::kernel::{LOCKDOWN, Storage, TraceMode, Tracer, VMLINUX_BTF, bpf_syscall_exists};
use crate::model::{HookKind, Hooks};
use crate::prefetch::has_cachestat;

/// The running kernel's release.
pub fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

pub fn root() -> AbilityCheck {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return AbilityCheck::ok("privileges", "root");
    }
    AbilityCheck::broken(
        "privileges",
        format!("user {}", uid.as_raw()),
        "learning and prefetching need root: run it with sudo",
    )
}

pub fn bpf() -> AbilityCheck {
    if bpf_syscall_exists() {
        return AbilityCheck::ok("BPF", "there");
    }
    AbilityCheck::broken(
        "BPF",
        "not in this kernel",
        "nothing can be learned: a kernel with CONFIG_BPF_SYSCALL=y is needed",
    )
}

pub fn btf() -> AbilityCheck {
    if Path::new(VMLINUX_BTF).exists() {
        return AbilityCheck::ok("BTF", VMLINUX_BTF);
    }
    AbilityCheck::broken(
        "BTF",
        format!("{VMLINUX_BTF} is missing"),
        "nothing can be learned: a kernel with CONFIG_DEBUG_INFO_BTF=y is needed",
    )
}

pub fn lockdown() -> AbilityCheck {
    judge_lockdown(fs::read_to_string(LOCKDOWN).ok().as_deref())
}

/// `modes` is the content of the file, with the mode in force in brackets; `None` without it.
fn judge_lockdown(modes: Option<&str>) -> AbilityCheck {
    let Some(modes) = modes else {
        return AbilityCheck::ok(
            "lockdown",
            "unknown (securityfs is not mounted, or the kernel has no lockdown)",
        );
    };
    let mode = modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("none");
    match mode {
        "none" => AbilityCheck::ok("lockdown", mode),
        "confidentiality" => AbilityCheck::broken(
            "lockdown",
            mode,
            "BPF is refused, so nothing can be learned: start the kernel without \
             lockdown=confidentiality",
        ),
        other => AbilityCheck::less(
            "lockdown",
            other,
            "debugfs files (fault_around_bytes) and, on some kernels, fentry programs are refused",
        ),
    }
}

/// Loads and attaches a learning session for real.
pub fn hooks() -> (Option<Hooks>, Vec<AbilityCheck>) {
    const ADDITIONS: &str = "hook: pages added to the cache";
    let mut storage = Storage::new();
    match Tracer::attach(&mut storage, TraceMode::Reads).map(|tracer| tracer.hooks()) {
        Ok(hooks) => {
            let mut checks = vec![AbilityCheck::ok(
                ADDITIONS,
                HookKind::Tracepoint.to_string(),
            )];
            checks.extend(judge_hooks(&hooks));
            (Some(hooks), checks)
        }
        Err(error) => (
            None,
            vec![AbilityCheck::broken(
                ADDITIONS,
                "not attached",
                format!("nothing can be learned: {error}"),
            )],
        ),
    }
}

fn judge_hooks(hooks: &Hooks) -> Vec<AbilityCheck> {
    [
        (
            "hook: reads of cached pages",
            hooks.reads,
            Hooks::READS_LOST,
        ),
        (
            "hook: page faults on cached pages",
            hooks.faults,
            Hooks::FAULTS_LOST,
        ),
    ]
    .into_iter()
    .map(|(name, means, lost)| {
        if means.sees() {
            AbilityCheck::ok(name, means.to_string())
        } else {
            AbilityCheck::less(
                name,
                means.to_string(),
                format!("{lost} are missing from what is learned: learn with other programs ended"),
            )
        }
    })
    .collect()
}

pub fn fault_around() -> AbilityCheck {
    judge_fault_around(fs::read_to_string("/sys/kernel/debug/fault_around_bytes"))
}

fn judge_fault_around(content: io::Result<String>) -> AbilityCheck {
    const NAME: &str = "debugfs fault_around_bytes";
    const COST: &str = "page faults on cached pages are learned as windows of 16 pages, of which some \
                        may not be needed";
    match content {
        Ok(bytes) => AbilityCheck::ok(NAME, bytes.trim()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            AbilityCheck::less(NAME, "not there (is debugfs mounted?)", COST)
        }
        Err(error) => AbilityCheck::less(NAME, format!("refused ({error})"), COST),
    }
}

pub fn cachestat() -> AbilityCheck {
    const NAME: &str = "cachestat(2)";
    if has_cachestat() {
        return AbilityCheck::ok(NAME, "there");
    }
    AbilityCheck::less(
        NAME,
        "not in this kernel (Linux 6.5 has it)",
        "a launch that is warm already is not noticed: its profile is walked through in vain",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::AbilityLevel;

    #[test]
    fn the_mode_in_brackets_is_in_force() {
        for (modes, level) in [
            ("[none] integrity confidentiality\n", AbilityLevel::Ok),
            ("none [integrity] confidentiality\n", AbilityLevel::Less),
            ("none integrity [confidentiality]\n", AbilityLevel::Broken),
        ] {
            assert_eq!(judge_lockdown(Some(modes)).level, level, "{modes}");
        }
        assert_eq!(judge_lockdown(None).level, AbilityLevel::Ok);
    }

    #[test]
    fn hooks_that_are_missing_cost_something_but_break_nothing() {
        let hooks = Hooks {
            reads: HookKind::Refused,
            faults: HookKind::Fentry,
        };
        let checks = judge_hooks(&hooks);
        assert_eq!(checks[0].level, AbilityLevel::Less);
        assert!(checks[0].cost.as_ref().unwrap().contains("missing from"));
        assert_eq!(
            (checks[1].level, &*checks[1].found),
            (AbilityLevel::Ok, "fentry")
        );
    }

    #[test]
    fn refused_and_absent_debugfs_are_told_apart() {
        let absent = judge_fault_around(Err(io::ErrorKind::NotFound.into()));
        let refused = judge_fault_around(Err(io::ErrorKind::PermissionDenied.into()));
        assert_ne!(absent.found, refused.found);
        assert_eq!(
            (absent.level, refused.level),
            (AbilityLevel::Less, AbilityLevel::Less)
        );
        assert_eq!(judge_fault_around(Ok("65536\n".to_owned())).found, "65536");
    }
}
