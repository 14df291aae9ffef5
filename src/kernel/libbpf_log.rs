//! What libbpf says, as a part of errors.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// Why something was refused, as far as libbpf has said it since it was last asked.
static REASON: Mutex<Option<Reason>> = Mutex::new(None);

#[derive(Debug, PartialEq, Eq)]
enum Reason {
    /// The kernel's verifier refused a program: which one, and its last word.
    Verifier(String),
    /// Another warning.
    Warning(String),
}

/// Keeps libbpf from writing to the terminal, and forgets what it has said before. What it says from now on is a part of
/// the next error ([`TraceError::from_bpf`](super::TraceError::from_bpf)). For objects beside the product's own, too.
pub fn capture() {
    if let Ok(mut reason) = REASON.lock() {
        *reason = None;
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut reason) = REASON.lock() {
            note(&mut reason, &message);
        }
    })));
}

/// The verifier's last word, or else libbpf's last warning, since this was last asked.
pub(super) fn take_reason() -> Option<String> {
    match REASON.lock().ok()?.take()? {
        Reason::Verifier(text) | Reason::Warning(text) => Some(text),
    }
}

/// Takes a warning in. Those behind the verifier's log only say again that loading has failed.
fn note(reason: &mut Option<Reason>, message: &str) {
    if let Some(word) = verifiers_word(message) {
        *reason = Some(Reason::Verifier(word));
    } else if !matches!(reason, Some(Reason::Verifier(_))) {
        *reason = Some(Reason::Warning(message.trim().to_owned()));
    }
}

/// What libbpf's warning with the verifier's log of a program comes down to; `None` for other warnings.
fn verifiers_word(message: &str) -> Option<String> {
    let (intro, log) = message.split_once("-- BEGIN PROG LOAD LOG --")?;
    let (log, _) = log
        .split_once("-- END PROG LOAD LOG --")
        .unwrap_or((log, ""));
    let program = intro.trim().trim_start_matches("libbpf: ");
    // Figures come last: how many instructions it has seen, and how long that took.
    let is_word = |line: &&str| {
        let figures = ["processed ", "verification time ", "stack depth "];
        !line.is_empty() && !figures.iter().any(|start| line.starts_with(start))
    };
    let word = log
        .lines()
        .map(str::trim)
        .rfind(is_word)
        .unwrap_or("no reason given");
    Some(format!("{program} {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "libbpf: prog 'task_switched': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n\
        12: (85) call bpf_get_stack#67\nR2 type=scalar expected=fp\n\
        processed 13 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n";

    #[test]
    fn the_verifiers_last_word_names_the_program() {
        let mut reason = None;
        for message in [
            "libbpf: prog 'task_switched': BPF program load failed: Permission denied\n",
            LOG,
            "libbpf: prog 'task_switched': failed to load: -13\n",
            "libbpf: failed to load object 'waits_bpf'\n",
        ] {
            note(&mut reason, message);
        }
        let word = "prog 'task_switched': R2 type=scalar expected=fp";
        assert_eq!(reason, Some(Reason::Verifier(word.into())));
    }

    #[test]
    fn without_a_log_the_last_warning_counts() {
        let mut reason = None;
        note(&mut reason, "libbpf: one\n");
        note(&mut reason, "libbpf: another\n");
        assert_eq!(reason, Some(Reason::Warning("libbpf: another".into())));
    }

    #[test]
    fn an_empty_log_is_no_reason() {
        let empty =
            "prog 'p': -- BEGIN PROG LOAD LOG --\nprocessed 0 insns\n-- END PROG LOAD LOG --";
        assert_eq!(verifiers_word(empty).unwrap(), "prog 'p': no reason given");
    }
}
