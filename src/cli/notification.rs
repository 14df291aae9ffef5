//! Notifications on the user's desktop, by the Desktop Notifications Specification 1.2.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::runtime;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::zvariant::Value;

use super::say;
use crate::cli::format::text_of;

/// The notification daemon's name on the session bus, and its interface's.
const NAME: &str = "org.freedesktop.Notifications";

const PATH: &str = "/org/freedesktop/Notifications";

/// How long the daemon may take, which the bus may have to start first.
const LIMIT: Duration = Duration::from_secs(10);

/// From the icon naming specification: every desktop has it.
const ICON: &str = "system-run";

/// As long as the daemon shows a notification by itself.
const USUAL_TIME: i32 = -1;

/// A line for the user's desktop, with a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The heading.
    pub summary: String,
    /// One sentence.
    pub body: String,
}

impl Notification {
    /// Shows it on the desktop of the user who runs this program, or prints it on standard error where there is none.
    /// Whether it was shown.
    pub fn show(&self) -> bool {
        let shown = self.send();
        if let Err(why) = &shown {
            let line = format!(
                "{}: {} (no notification can be shown: {why})",
                self.summary, self.body
            );
            say(&text_of(line.as_bytes()));
        }
        shown.is_ok()
    }

    fn send(&self) -> Result<(), String> {
        let runtime = runtime().map_err(|error| error.to_string())?;
        let sent = runtime.block_on(async { timeout(LIMIT, self.notify()).await });
        // A connect(2) that hangs must not be waited for.
        runtime.shutdown_background();
        match sent {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
        }
    }

    async fn notify(&self) -> zbus::Result<()> {
        let connection = Builder::session()?.build().await?;
        let (summary, body) = (text_of(self.summary.as_bytes()), markup_of(&self.body));
        let (replaces, actions) = (0_u32, Vec::<&str>::new());
        let hints = HashMap::<&str, Value<'_>>::new();
        let arguments = (
            "Paralfetch",
            replaces,
            ICON,
            summary,
            body,
            actions,
            hints,
            USUAL_TIME,
        );
        let (name, member) = (Some(NAME), "Notify");
        connection
            .call_method(name, PATH, name, member, &arguments)
            .await?;
        Ok(())
    }
}

fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// A body is text with a few elements of HTML: these are no elements.
fn markup_of(text: &str) -> String {
    let text = text_of(text.as_bytes());
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_not_markup() {
        let body = "/a<b>&\u{1b}c";
        assert_eq!(markup_of(body), "/a&lt;b&gt;&amp;\u{fffd}c");
    }
}
