//! From a command line to an app, by the rules of launchers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::key::{Key, absolute, base_name};
use super::rules::{Argument, OptionKind, Rule, Rules};

/// Wrappers within wrappers that are looked through; more are not worth an app.
const MAX_DEPTH: usize = 8;

/// Builtin commands of the shell, which start no app.
const BUILTINS: [&[u8]; 10] = [
    b".", b"source", b"cd", b"eval", b"export", b"set", b"unset", b"ulimit", b"umask", b"trap",
];

/// Bytes that mean something to the shell. Quotes are among them: a line with them may be anything.
const SHELL_META: &[u8] = b"|&;<>()$`\\\"'*?[]#~{}!\n\r";

/// Which app a command line starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What tells the app from others.
    pub key: Key,
    /// The program that is executed last on the way to the app, behind all wrappers: the app itself or
    /// its launcher. An absolute path, or a command's name that is yet to be looked up in PATH.
    pub program: PathBuf,
    /// Whether this is one app: `false` for a launcher whose arguments do not tell what it starts
    /// (`python3 -c CODE`); the key is that of the launcher then.
    pub distinct: bool,
}

/// What the arguments of a launcher tell.
enum Told<'a> {
    File(&'a OsStr),
    Name(&'a OsStr),
    /// A command with its arguments; never empty.
    Command(&'a [OsString]),
    /// A line for the shell.
    Line(&'a OsStr),
    Nothing,
}

/// Finds commands, as execvp(3) does in PATH.
type CommandLookUp<'a> = &'a dyn Fn(&OsStr) -> Option<PathBuf>;

impl Rules {
    /// The app that is started when `file` is executed with `argv` (`argv[0]` included) by a process
    /// with the working directory `cwd`. `file` is what execve(2) was given: for a script, the script.
    /// Commands that wrappers look up in PATH are not looked up. Touches no file.
    pub fn identify(&self, file: &Path, argv: &[OsString], cwd: &Path) -> Identity {
        self.identify_with(file, argv, cwd, &|_| None)
    }

    /// As [`Rules::identify`], with `look_up` to find the commands that wrappers look up in PATH.
    pub fn identify_with(
        &self,
        file: &Path,
        argv: &[OsString],
        cwd: &Path,
        look_up: &dyn Fn(&OsStr) -> Option<PathBuf>,
    ) -> Identity {
        self.of_program(absolute(file, cwd), argv, cwd, look_up, MAX_DEPTH)
    }

    fn of_program(
        &self,
        program: PathBuf,
        argv: &[OsString],
        cwd: &Path,
        look_up: CommandLookUp,
        depth: usize,
    ) -> Identity {
        let base = base_name(program.as_os_str());
        let own_key = match program.has_root() {
            true => Key::File(program.clone()),
            false => Key::Command(program.clone().into()),
        };
        let app = |key: Option<Key>, program: PathBuf| match key {
            Some(key) => Identity {
                key,
                program,
                distinct: true,
            },
            None => Identity {
                key: own_key.clone(),
                program,
                distinct: false,
            },
        };
        let directory = program.parent().unwrap_or(Path::new(""));
        if let Some(launcher) = self.launcher_of_directory(directory) {
            return app(Key::name(launcher, base), program);
        }
        let Some((launcher, rule)) = self.launcher(base) else {
            return app(Some(own_key.clone()), program);
        };
        if let Some(name) = linked_name(self, launcher, rule, argv) {
            return app(Key::name(launcher, name), program);
        }
        let mut cwd = cwd.to_path_buf();
        let args = argv.get(1..).unwrap_or_default();
        match rule.told(args, &mut cwd) {
            Told::File(path) => app(Key::file(path, &cwd), program),
            Told::Name(name) => app(Key::name(launcher, name), program),
            Told::Command(argv) if depth > 0 => self
                .of_command(argv, &cwd, look_up, depth - 1)
                .unwrap_or_else(|| app(None, program)),
            Told::Line(line) if depth > 0 => plain_command(line)
                .and_then(|argv| self.of_command(&argv, &cwd, look_up, depth - 1))
                .unwrap_or_else(|| app(None, program)),
            Told::Command(_) | Told::Line(_) | Told::Nothing => app(None, program),
        }
    }

    /// The app of a command line as a shell or wrapper would execute it; `None` if `argv[0]` is no
    /// command.
    fn of_command(
        &self,
        argv: &[OsString],
        cwd: &Path,
        look_up: CommandLookUp,
        depth: usize,
    ) -> Option<Identity> {
        let command = argv.first()?;
        let program = match command.as_bytes().contains(&b'/') {
            true => absolute(Path::new(command), cwd),
            false => {
                Key::command(command)?;
                match look_up(command) {
                    Some(path) => absolute(&path, cwd),
                    None => PathBuf::from(command),
                }
            }
        };
        Some(self.of_program(program, argv, cwd, look_up, depth))
    }
}

/// The other name under which a launcher was started, if that is the app's name.
fn linked_name<'a>(
    rules: &Rules,
    launcher: &str,
    rule: &Rule,
    argv: &'a [OsString],
) -> Option<&'a OsStr> {
    let name = base_name(argv.first()?);
    let own = rules.launcher(name).is_some_and(|(own, _)| own == launcher);
    (rule.linked && !own && !name.is_empty()).then_some(name)
}

impl Rule {
    /// What the arguments tell; changes `cwd` where they do.
    fn told<'a>(&self, mut args: &'a [OsString], cwd: &mut PathBuf) -> Told<'a> {
        let mut options = true;
        let mut subcommand = !self.subcommands.is_empty();
        let mut positional = self.positional;
        while let Some((arg, rest)) = args.split_first() {
            if options && arg == "--" {
                options = false;
                args = rest;
                continue;
            }
            if let Some((kind, attached)) = self.option(arg).filter(|_| options) {
                let takes = !matches!(
                    kind,
                    OptionKind::Flag | OptionKind::Attached | OptionKind::End
                );
                let (value, behind) = match (attached, rest.split_first()) {
                    (None, Some((value, behind))) if takes => (value.as_os_str(), behind),
                    (attached, _) => (attached.unwrap_or_default(), rest),
                };
                match kind {
                    OptionKind::Flag | OptionKind::Attached | OptionKind::Value => {}
                    OptionKind::Directory => *cwd = absolute(Path::new(value), cwd),
                    OptionKind::Name => return Told::Name(value),
                    OptionKind::File => return Told::File(value),
                    OptionKind::Line => return Told::Line(value),
                    OptionKind::End => return Told::Nothing,
                }
                args = behind;
                continue;
            }
            if self.is_word(arg) || (self.assignments && is_assignment(arg)) {
                args = rest;
            } else if subcommand {
                if !self.subcommands.iter().any(|one| one == arg.as_bytes()) {
                    return Told::Nothing;
                }
                subcommand = false;
                args = rest;
            } else if positional > 0 {
                positional -= 1;
                args = rest;
            } else {
                return match self.argument {
                    Argument::File => Told::File(arg),
                    Argument::Name if self.names_file(arg) => Told::File(arg),
                    Argument::Name => Told::Name(arg),
                    Argument::Command => Told::Command(args),
                    Argument::Nothing => Told::Nothing,
                };
            }
        }
        Told::Nothing
    }

    /// What an argument is as an option, with the value that is attached to it; `None` if it is none.
    fn option<'a>(&self, arg: &'a OsStr) -> Option<(OptionKind, Option<&'a OsStr>)> {
        let bytes = arg.as_bytes();
        if let Some(kind) = self.options.get(bytes) {
            return Some((*kind, None));
        }
        match bytes {
            // Standard input to interpreters; an option to env and some other wrappers.
            b"-" if self.argument != Argument::Command => return Some((OptionKind::End, None)),
            [b'-', ..] => {}
            _ => return None,
        }
        if self.bundled && !bytes.starts_with(b"--") {
            return Some(self.bundle(bytes));
        }
        let equals = bytes.iter().position(|&byte| byte == b'=');
        let known = equals.and_then(|at| {
            let kind = self.options.get(&bytes[..at])?;
            Some((*kind, Some(OsStr::from_bytes(&bytes[at + 1..]))))
        });
        Some(known.unwrap_or((OptionKind::Flag, None)))
    }

    /// The first letter of a bundle that is more than a flag.
    fn bundle<'a>(&self, bytes: &'a [u8]) -> (OptionKind, Option<&'a OsStr>) {
        for (at, letter) in bytes.iter().enumerate().skip(1) {
            let Some(kind) = self.options.get(&[b'-', *letter][..]) else {
                continue;
            };
            let behind = &bytes[at + 1..];
            // Shells read their line from the next argument whatever follows the letter.
            let attached = !behind.is_empty() && *kind != OptionKind::Line;
            return (*kind, attached.then(|| OsStr::from_bytes(behind)));
        }
        (OptionKind::Flag, None)
    }

    fn is_word(&self, arg: &OsStr) -> bool {
        let bytes = arg.as_bytes();
        let start = bytes.iter().rposition(|&byte| byte == b'\\');
        let last = &bytes[start.map_or(0, |at| at + 1)..];
        self.words
            .iter()
            .any(|word| word.eq_ignore_ascii_case(last))
    }

    /// Whether an argument that may be a name is a file.
    fn names_file(&self, arg: &OsStr) -> bool {
        let bytes = arg.as_bytes();
        let path = [b"/".as_slice(), b"./", b"../"]
            .iter()
            .any(|start| bytes.starts_with(start));
        let suffix = self.file_suffixes.iter().any(|suffix| {
            let start = bytes.len().checked_sub(suffix.len());
            start.is_some_and(|start| bytes[start..].eq_ignore_ascii_case(suffix))
        });
        // Windows' own paths, with drive letters and backslashes, are none of this system's.
        path || (suffix && !bytes.contains(&b'\\') && bytes.get(1) != Some(&b':'))
    }
}

/// Whether an argument is an assignment to an environment variable.
fn is_assignment(arg: &OsStr) -> bool {
    let bytes = arg.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=');
    equals.is_some_and(|at| at > 0 && !bytes[..at].contains(&b'/'))
}

/// The words of a line for the shell that is one plain command.
fn plain_command(line: &OsStr) -> Option<Vec<OsString>> {
    let bytes = line.as_bytes();
    if bytes.iter().any(|byte| SHELL_META.contains(byte)) {
        return None;
    }
    let words = bytes.split(|byte| matches!(byte, b' ' | b'\t'));
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    while words
        .next_if(|word| is_assignment(OsStr::from_bytes(word)))
        .is_some()
    {}
    words.next_if_eq(&b"exec".as_slice());
    let words: Vec<&[u8]> = words.collect();
    let command = words.first()?;
    if command.starts_with(b"-") || BUILTINS.contains(command) {
        return None;
    }
    let owned = words.into_iter().map(|word| OsStr::from_bytes(word).into());
    Some(owned.collect())
}

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
