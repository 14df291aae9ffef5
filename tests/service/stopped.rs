//! The service is stopped for a while (SIGSTOP), as a whole system is in a suspend, and goes on.

use std::fs;

use rustix::process::Signal;

use crate::killed::{until_held, until_let_go};
use crate::running::until;
use crate::set_up;

#[test]
fn a_stopped_service_goes_on_where_it_was() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    image.enable("app");
    let mut service = image.start();
    service.line(&["ready to learn"]);

    // While it stands still, an app that it holds does, too.
    service.signal(Signal::STOP);
    let app = image.spawn("app");
    until_held(&app);
    service.signal(Signal::CONT);
    service.line(&["launch begins", "Learn"]);
    until_let_go(&app);

    // In the middle of learning; the app ends meanwhile.
    service.signal(Signal::STOP);
    image.let_end();
    app.succeed();
    service.signal(Signal::CONT);
    let line = service.launch_of(&image.id("app"));
    if !line.contains("kind=Learned") {
        // More happened than the buffers have room for.
        assert!(line.contains("lost"), "{line}");
        image.learn_in_the_end(&mut service, "app");
    }

    // A launch that is only seen afterwards.
    let status = format!("/proc/{}/status", service.pid());
    service.signal(Signal::STOP);
    until("the service is stopped", || {
        fs::read_to_string(&status).unwrap().contains("State:\tT")
    });
    image.launch("app");
    service.signal(Signal::CONT);
    service.launch_of(&image.id("app"));
    image.prefetch_in_the_end(&mut service, "app");
}
