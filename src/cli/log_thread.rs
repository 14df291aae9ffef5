//! The log on standard error, written by a thread of its own.
//!
//! Whoever reads it may stop: then a pipe is full, and its writer waits. The event loop must not.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

/// Lines that wait for the thread at most; further ones are lost, and the log says how many once it goes on.
const MOST_LINES: usize = 1024;

/// How long the end of the program waits for lines that are left.
const PATIENCE: Duration = Duration::from_millis(500);

enum LogItem {
    Line(Vec<u8>),
    /// All lines before it are written: tell this one.
    Flush(Sender<()>),
}

/// Where lines of the log go. Never waits.
#[derive(Clone)]
pub(super) struct LogLines {
    items: SyncSender<LogItem>,
    lost: Arc<AtomicU64>,
}

impl LogLines {
    /// Starts the thread, which writes to `output`.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(output: impl Write + Send + 'static) -> io::Result<LogLines> {
        let (items, inbox) = sync_channel(MOST_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let of_thread = Arc::clone(&lost);
        let write = move || write_lines(&inbox, &of_thread, output);
        // It takes no signal: those of the service are read by the event loop, which has not begun.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = Builder::new().name("pf-log".to_owned()).spawn(write);
        before.thread_set_mask()?;
        started?;
        Ok(LogLines { items, lost })
    }

    /// Waits until all lines so far are written, for half a second at most.
    pub fn flush(&self) {
        let (tell, told) = channel();
        // A full queue stands still.
        if self.items.try_send(LogItem::Flush(tell)).is_ok() {
            // If that takes longer, nobody reads the log: there is nobody to tell.
            let _ = told.recv_timeout(PATIENCE);
        }
    }
}

impl Write for LogLines {
    /// Takes a line, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.items.try_send(LogItem::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(inbox: &Receiver<LogItem>, lost: &AtomicU64, mut output: impl Write) {
    for item in inbox {
        let written = match item {
            LogItem::Line(line) => output.write_all(&line),
            LogItem::Flush(tell) => {
                // It waits half a second at most.
                let _ = tell.send(());
                Ok(())
            }
        };
        let lost = lost.swap(0, Ordering::Relaxed);
        let told = match lost {
            0 => Ok(()),
            lost => writeln!(
                output,
                " WARN {lost} lines of the log are lost: nobody read it"
            ),
        };
        // Whoever read it has gone: there is nobody to tell.
        let _ = written.and(told);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Writes when it may, and keeps what was written.
    #[derive(Clone)]
    struct Slow {
        may: Arc<Mutex<Receiver<()>>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once nobody can say more, it may for good.
            let _ = self.may.lock().unwrap().recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_costs_lines_and_nobody_waits() {
        let (go_on, may) = channel();
        let slow = Slow {
            may: Arc::new(Mutex::new(may)),
            written: Arc::default(),
        };
        let written = Arc::clone(&slow.written);
        let mut lines = LogLines::start(slow).unwrap();
        // One more than fit is with the thread, perhaps.
        for number in 0..MOST_LINES + 10 {
            lines
                .write_all(format!("line {number}\n").as_bytes())
                .unwrap();
        }
        drop(go_on);
        let (tell, told) = channel();
        lines.items.send(LogItem::Flush(tell)).unwrap();
        told.recv().unwrap();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("line 0\n"), "{text}");
        assert!(text.contains("lines of the log are lost"), "{text}");
        // What the queue holds, what the thread has, and that the others are lost.
        assert!(text.lines().count() <= MOST_LINES + 2, "{text}");
    }
}
