//! The page in a real browser: nothing is loaded from anywhere, nothing is complained about.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::synthetic::{APPS, SCENARIOS, lines, records, timeline};

/// Chromium on the page, with a profile of its own; the network log lists every request.
fn browse(dir: &Path, arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
        // The browser's own calls home lead nowhere.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--log-net-log={}", dir.join("net.json").display()))
        .args(arguments)
        .arg(format!("file://{}", dir.join("report.html").display()))
        .output()
}

/// Writes a large report: two drives, all apps and scenarios, two timelines. Where `LAB_PAGE_DIR` names
/// a directory the page is kept there, to be looked at.
fn page(dir: &Path) -> PathBuf {
    let both = ["qlc-sata", "microsd"]
        .map(|device| records(device, APPS, SCENARIOS, 5))
        .concat();
    let together = [
        ("together-cold", 0.0),
        ("together-sorted", 0.05),
        ("together-fast", 0.2),
        ("together-infill", 0.5),
    ];
    let background = [("background-fast", 0.3), ("background-infill", 0.9)];
    let writer = [("writer-cold", 0.0), ("writer-prefetch", 0.9)];
    let groups = [
        ("gimp+okular", 2.9, 0.5),
        ("gimp+okular+vlc+inkscape", 5.4, 0.6),
    ];
    let sweep = [
        ("sweep-shift-0", 0.70),
        ("sweep-shift-16", 0.76),
        ("sweep-shift-64", 0.80),
        ("sweep-shift-128", 0.81),
        ("sweep-shift-256", 0.78),
        ("only-sweep-shift-0", 0.72),
        ("only-sweep-shift-64", 0.86),
        ("only-sweep-shift-256", 0.88),
    ];
    let others = [
        records("qlc-sata", APPS, &sweep, 2),
        records("qlc-sata", &groups, &together, 5),
        records("qlc-sata", &APPS[..4], &background, 5),
        records(
            "qlc-sata",
            &[("libreoffice-writer", 9.0, 0.1), ("gimp", 21.0, 0.1)],
            &writer,
            5,
        ),
        records("qlc-sata", &[("uname", 0.004, 0.4)], &SCENARIOS[..2], 5),
    ];
    let launches =
        |record: &crate::record::Record| matches!(record, crate::record::Record::Launch(_));
    let mut all = both;
    all.extend(others.concat().into_iter().filter(launches));
    fs::write(dir.join("results.jsonl"), lines(&all)).unwrap();
    fs::create_dir_all(dir.join("timelines")).unwrap();
    for scenario in ["cold", "infill"] {
        let bytes = serde_json::to_vec(&timeline("qlc-sata", "gimp", scenario)).unwrap();
        fs::write(dir.join(format!("timelines/gimp-{scenario}.json")), bytes).unwrap();
    }
    super::write(dir).unwrap();
    dir.join("report.html")
}

#[test]
fn a_browser_shows_the_page_and_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = page(dir.path());
    if let Some(kept) = std::env::var_os("LAB_PAGE_DIR") {
        for name in ["report.html", "report.md"] {
            fs::copy(dir.path().join(name), Path::new(&kept).join(name)).unwrap();
        }
    }
    assert!(
        fs::metadata(path).unwrap().len() < 2_000_000,
        "the page stays small"
    );
    let output = match browse(dir.path(), &["--dump-dom"]) {
        Ok(output) => output,
        Err(error) => {
            let required =
                std::env::var("PARALFETCH_REQUIRE_PRIVILEGED").is_ok_and(|set| set == "1");
            assert!(
                !required,
                "chromium cannot be run ({error}); apt-get install chromium"
            );
            eprintln!("SKIPPED: chromium cannot be run ({error}); apt-get install chromium");
            return;
        }
    };
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(
        !log.contains("CONSOLE"),
        "the page made the browser complain:\n{log}"
    );
    let dom = String::from_utf8_lossy(&output.stdout);
    for part in [
        "id=\"drive-0\"",
        "id=\"drive-1\"",
        "class=\"timeline\"",
        "role=\"img\"",
        "Figure 10",
        "Figures 6 and 8",
        "</html>",
    ] {
        assert!(dom.contains(part), "{part} is missing");
    }
    assert_eq!(requests(dir.path()), [""; 0]);
}

/// What pages asked the network for; the browser's own requests come from no page.
fn requests(dir: &Path) -> Vec<String> {
    let log = fs::read_to_string(dir.join("net.json")).unwrap();
    let of_a_page =
        |line: &&str| line.contains("\"initiator\":") && !line.contains("\"not an origin\"");
    log.lines().filter(of_a_page).map(str::to_owned).collect()
}

/// The test above would see a complaint and a request: a page that makes both.
#[test]
fn a_browser_would_tell() {
    let dir = tempfile::tempdir().unwrap();
    let text = "<script>console.error('broken')</script><img src='http://127.0.0.1:9/x.png'>";
    fs::write(dir.path().join("report.html"), text).unwrap();
    let Ok(output) = browse(dir.path(), &["--dump-dom"]) else {
        eprintln!("SKIPPED: chromium cannot be run; apt-get install chromium");
        return;
    };
    assert!(String::from_utf8_lossy(&output.stderr).contains("CONSOLE"));
    let requests = requests(dir.path());
    assert!(
        requests
            .iter()
            .any(|request| request.contains("127.0.0.1:9/x.png")),
        "{requests:?}"
    );
}
