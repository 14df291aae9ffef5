//! The kernel's abilities.

use std::fs;
use std::io;
use std::path::Path;

use super::{AbilityCheck, Found};
use crate::kernel::{LOCKDOWN, TraceMode, Tracer, VMLINUX_BTF, bpf_syscall_exists};
use crate::model::{HookKind, Hooks};
use crate::prefetch::has_cachestat;

fn found(there: bool, found: &str, otherwise: impl Into<String>) -> Found {
    match there {
        true => Ok(found.to_owned()),
        false => Err(otherwise.into()),
    }
}

/// What learning needs before a program can be loaded.
pub fn conditions() -> [AbilityCheck; 4] {
    let btf = Path::new(VMLINUX_BTF).exists();
    [
        privileges(),
        AbilityCheck::needed(
            "BPF",
            found(bpf_syscall_exists(), "there", "not in this kernel"),
            "nothing can be learned: a kernel with CONFIG_BPF_SYSCALL=y is needed",
        ),
        AbilityCheck::needed(
            "BTF",
            found(btf, VMLINUX_BTF, format!("{VMLINUX_BTF} is missing")),
            "nothing can be learned: a kernel with CONFIG_DEBUG_INFO_BTF=y is needed",
        ),
        judge_lockdown(fs::read_to_string(LOCKDOWN).ok().as_deref()),
    ]
}

/// The service has root; whoever looks needs it to look at everything.
fn privileges() -> AbilityCheck {
    const NAME: &str = "privileges";
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return AbilityCheck::ok(NAME, "root");
    }
    let user = format!("user {}", uid.as_raw());
    let cost = "the service has root; to look at everything here, too: sudo paralfetch doctor";
    AbilityCheck::unknown(NAME, user, cost)
}

/// `modes` is the content of the file, with the mode in force in brackets; `None` without it.
fn judge_lockdown(modes: Option<&str>) -> AbilityCheck {
    const NAME: &str = "lockdown";
    let Some(modes) = modes else {
        let none = "none found (no securityfs here, or no lockdown in this kernel)";
        return AbilityCheck::ok(NAME, none);
    };
    let mode = modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'));
    match mode.unwrap_or("none") {
        "none" => AbilityCheck::ok(NAME, "none"),
        "confidentiality" => AbilityCheck::needed(
            NAME,
            Err("confidentiality".to_owned()),
            "BPF is refused, so nothing can be learned: start the kernel without \
             lockdown=confidentiality",
        ),
        mode => AbilityCheck::useful(
            NAME,
            Err(mode.to_owned()),
            "debugfs files (fault_around_bytes) and, on some kernels, fentry programs are refused",
        ),
    }
}

/// Loads and attaches the programs of a learning session, which takes root.
pub fn hooks() -> (Option<Hooks>, Vec<AbilityCheck>) {
    const ADDITIONS: &str = "hook: pages added to the cache";
    if !rustix::process::geteuid().is_root() {
        let cost = "whether a launch can be learned is only known when the programs were attached";
        let additions = AbilityCheck::unknown(ADDITIONS, "not tried", cost);
        return (None, vec![additions]);
    }
    match Tracer::attach(TraceMode::Reads).map(|tracer| tracer.hooks()) {
        Ok(hooks) => {
            let additions = AbilityCheck::ok(ADDITIONS, HookKind::Tracepoint.to_string());
            let [reads, faults] = judge_hooks(&hooks);
            (Some(hooks), vec![additions, reads, faults])
        }
        Err(error) => {
            let cost = format!("nothing can be learned: {error}");
            let additions = AbilityCheck::needed(ADDITIONS, Err("not attached".to_owned()), cost);
            (None, vec![additions])
        }
    }
}

fn judge_hooks(hooks: &Hooks) -> [AbilityCheck; 2] {
    let judge = |name, hook: HookKind, lost| {
        AbilityCheck::useful(
            name,
            found(hook.sees(), &hook.to_string(), hook.to_string()),
            format!("{lost} are missing from what is learned: learn with other programs ended"),
        )
    };
    [
        judge(
            "hook: reads of cached pages",
            hooks.reads,
            Hooks::READS_LOST,
        ),
        judge(
            "hook: page faults on cached pages",
            hooks.faults,
            Hooks::FAULTS_LOST,
        ),
    ]
}

pub fn fault_around() -> AbilityCheck {
    judge_fault_around(fs::read_to_string("/sys/kernel/debug/fault_around_bytes"))
}

fn judge_fault_around(content: io::Result<String>) -> AbilityCheck {
    let found = content
        .map(|bytes| bytes.trim().to_owned())
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "not there (is debugfs mounted?)".to_owned(),
            _ => format!("refused ({error})"),
        });
    AbilityCheck::useful(
        "debugfs fault_around_bytes",
        found,
        "page faults on cached pages are learned as windows of 16 pages, of which some may not be \
         needed",
    )
}

pub fn cachestat() -> AbilityCheck {
    AbilityCheck::useful(
        "cachestat(2)",
        found(
            has_cachestat(),
            "there",
            "not in this kernel (Linux 6.5 has it)",
        ),
        "a launch that is warm already is not noticed: its profile is walked through in vain",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::AbilityLevel::{Broken, Less, Ok as Fine};

    #[test]
    fn the_lockdown_mode_in_brackets_is_in_force() {
        for (modes, level) in [
            (Some("[none] integrity confidentiality\n"), Fine),
            (Some("none [integrity] confidentiality\n"), Less),
            (Some("none integrity [confidentiality]\n"), Broken),
            (None, Fine),
        ] {
            assert_eq!(judge_lockdown(modes).level, level, "{modes:?}");
        }
    }

    #[test]
    fn missing_hooks_cost_something_but_break_nothing() {
        let [reads, faults] = judge_hooks(&Hooks {
            reads: HookKind::Refused,
            faults: HookKind::Fentry,
        });
        assert_eq!(reads.level, Less);
        assert!(reads.cost.unwrap().contains("missing from"));
        assert_eq!((faults.level, &*faults.found), (Fine, "fentry"));
        assert_eq!(faults.cost, None);
    }

    #[test]
    fn refused_and_absent_debugfs_are_told_apart() {
        let absent = judge_fault_around(Err(io::ErrorKind::NotFound.into()));
        let refused = judge_fault_around(Err(io::ErrorKind::PermissionDenied.into()));
        assert_ne!(absent.found, refused.found);
        assert_eq!((absent.level, refused.level), (Less, Less));
        assert_eq!(judge_fault_around(Ok("65536\n".to_owned())).found, "65536");
    }
}
