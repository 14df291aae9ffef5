use proptest::prelude::*;

use super::*;
use crate::service::control::FileReads;
use crate::service::history::Kind;

fn app(app: &str) -> AppState {
    AppState {
        app: app.to_owned(),
        name: "Gimp".to_owned(),
        phase: "prefetching".to_owned(),
        gain_percent: Some(60),
        cold_with_us: Some(300_000),
        cold_without_us: Some(750_000),
        ..AppState::default()
    }
}

fn launch(kind: Kind, warmth: Option<Warmth>, duration_us: u64) -> LaunchRecord {
    LaunchRecord {
        time_s: 1_700_000_000,
        app: "/usr/bin/gimp".to_owned(),
        kind,
        warmth,
        duration_us: Some(duration_us),
        waiting_us: Some(duration_us / 2),
        read_bytes: 50 << 20,
        own_readaheads: 7,
        ..LaunchRecord::default()
    }
}

fn made(apps: &[AppState], launches: &[LaunchRecord]) -> String {
    page(&LaunchPage {
        apps,
        launches,
        machine: MachineText {
            kernel: "6.12".to_owned(),
            drives: vec!["sda: flash".to_owned()],
        },
        made_s: 1_700_000_000,
    })
}

/// The elements of a page, without their texts and values.
fn elements(page: &str) -> Vec<String> {
    let element = |part: &str| {
        let inside = part.split('>').next().unwrap_or_default();
        let names: Vec<&str> = inside.split('"').step_by(2).collect();
        names.join("\"")
    };
    page.split('<').skip(1).map(element).collect()
}

#[test]
fn a_page_without_launches_says_so() {
    for apps in [&[][..], &[app("/usr/bin/gimp")]] {
        let page = made(apps, &[]);
        assert!(page.contains("No launch is known yet."), "{page}");
        assert!(!page.contains("<svg") && !page.contains("<table"), "{page}");
    }
}

#[test]
fn one_launch_has_its_bar_and_its_row() {
    let mut one = launch(Kind::Prefetched, Some(Warmth::Cold), 1_234_000);
    one.note = Some("a < b".to_owned());
    let page = made(&[app("/usr/bin/gimp")], &[one]);
    assert!(page.starts_with(BEGIN), "{page}");
    for part in [
        "<h1>Launches of <bdi>Gimp</bdi></h1>",
        "<bdi>/usr/bin/gimp</bdi>",
        ">0.5 s</strong> was saved in 1 prefetched cold launch: 0.45 s each, 60\u{a0}% of",
        "The only launch that is known.",
        "role=\"img\"",
        "caches cold, took 1.234 s, waited 0.617 s</title>",
        "<td class=\"number\"><bdi>0.617 s</bdi></td><td class=\"number\"><bdi>7</bdi></td>\
         <td class=\"number\"><bdi>50.0 MiB</bdi></td><td class=\"text\"><bdi>a &lt; b</bdi></td>",
        "<dd>6.12</dd>",
        "<dd>sda: flash</dd>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(
        page.matches("<caption>").count(),
        page.matches("<table>").count()
    );
    // Nothing is loaded or run.
    for part in ["<script", "<img", "src=", "http:", "https:", "@import"] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!(
        page.matches("url(").count(),
        page.matches("url(#hatch)").count() + page.matches("url(#hatch-both)").count()
    );
}

#[test]
fn the_newest_launches_are_shown_and_numbered_in_time() {
    let mut launches = vec![launch(Kind::Watched, None, 2_000_000); SHOWN + 5];
    launches[0].note = Some("newest".to_owned());
    let page = made(&[app("/usr/bin/gimp")], &launches);
    assert!(page.contains("The newest 60 of 65 launches"), "{page}");
    assert_eq!(page.matches("<g>").count(), SHOWN);
    let rows: Vec<&str> = page.split("<th scope=\"row\"").collect();
    let newest = rows.iter().find(|row| row.contains("newest</bdi>"));
    assert!(newest.unwrap().contains("<bdi>60</bdi></th>"), "{page}");
}

#[test]
fn what_the_newest_launches_read_themselves_stands_with_its_files() {
    let with = |files: usize| LaunchRecord {
        own_reads: Some(vec![
            FileReads {
                path: "/usr/lib/<a>.so".to_owned(),
                reads: 3,
                bytes: 64 << 10,
                not_in_profile_bytes: 4 << 10,
                ..FileReads::default()
            };
            files
        ]),
        ..launch(Kind::Prefetched, Some(Warmth::Cold), 1_000_000)
    };
    let unknown = launch(Kind::Learned, None, 1_000_000);
    let page_of = |launches: &[LaunchRecord]| made(&[app("/usr/bin/gimp")], launches);
    let mut launches = vec![unknown.clone(), with(2), with(0)];
    launches.extend(vec![with(1); READS_SHOWN]);
    let page = page_of(&launches);
    let row = "<td class=\"number\"><bdi>3</bdi></td><td class=\"number\"><bdi>64 KiB</bdi></td>\
               <td class=\"number\"><bdi>4 KiB</bdi></td><td class=\"text\"><bdi>/usr/lib/&lt;a&gt;.so</bdi></td>";
    assert_eq!(page.matches(row).count(), 2 + READS_SHOWN - 1, "{page}");
    for launches in [&[unknown][..], &[with(0)]] {
        assert!(!page_of(launches).contains("still read"));
    }
}

#[test]
fn users_are_named_where_there_are_several() {
    let own = launch(Kind::Learned, None, 1);
    let others = LaunchRecord {
        uid: 54_321,
        ..own.clone()
    };
    let apps = [
        app("/a"),
        AppState {
            uid: 54_321,
            ..app("/a")
        },
    ];
    let page = made(&apps, &[own.clone(), others]);
    assert!(
        page.contains(">user</th>") && page.contains("<bdi>54321</bdi>: "),
        "{page}"
    );
    let page = made(&apps, &[own]);
    assert!(
        !page.contains(">user</th>") && !page.contains("54321"),
        "{page}"
    );
}

#[test]
fn time_that_prefetching_costs_is_not_called_saved() {
    let slower = AppState {
        gain_percent: Some(-20),
        cold_with_us: Some(900_000),
        app: "/usr/bin/gimp".to_owned(),
        ..app("/usr/bin/gimp")
    };
    let cold = launch(Kind::Prefetched, Some(Warmth::Cold), 1_000_000);
    let page = made(&[slower], &[cold]);
    assert!(page.contains(" was added in 1 "), "{page}");
}

#[test]
fn extremes_do_not_break_the_page() {
    let most = LaunchRecord {
        time_s: u64::MAX,
        uid: u32::MAX,
        duration_us: Some(u64::MAX),
        waiting_us: Some(u64::MAX),
        read_bytes: u64::MAX,
        own_readaheads: u64::MAX,
        ..launch(Kind::Prefetched, Some(Warmth::Cold), 0)
    };
    let state = AppState {
        uid: u32::MAX,
        gain_percent: Some(i32::MAX),
        cold_with_us: Some(0),
        cold_without_us: Some(u64::MAX),
        ..app("/usr/bin/gimp")
    };
    let least = LaunchRecord::default();
    let page = made(&[state], &[most, least]);
    for bad in ["NaN", "inf", "\"-"] {
        assert!(!page.contains(bad), "{bad}: {page}");
    }
}

#[test]
fn names_are_short_where_ids_are_long() {
    assert_eq!(short_name("/usr/bin/gimp"), "gimp");
    assert_eq!(short_name("python3:idlelib"), "idlelib");
    assert_eq!(short_name("python3:/opt/a.py"), "a.py");
    assert_eq!(short_name("/"), "/");
    assert_eq!(short_name(""), "");
}

proptest! {
    /// Whatever users call their apps, the page has the same elements and attributes.
    #[test]
    fn no_text_of_users_becomes_markup(texts in prop::collection::vec(hostile(), 5)) {
        let of = |texts: &[String]| {
            let state = AppState {
                app: texts[0].clone(),
                name: texts[1].clone(),
                phase: texts[2].clone(),
                why: texts[3].clone(),
                ..app("")
            };
            let launch = LaunchRecord {
                app: texts[0].clone(),
                note: Some(texts[4].clone()),
                own_reads: Some(vec![FileReads {
                    path: texts[2].clone(),
                    ..FileReads::default()
                }]),
                ..launch(Kind::Prefetched, Some(Warmth::Cold), 1_000_000)
            };
            page(&LaunchPage {
                apps: &[state],
                launches: &[launch],
                machine: MachineText { kernel: texts[3].clone(), drives: vec![texts[4].clone()] },
                made_s: 0,
            })
        };
        let plain = of(&["x", "x", "x", "x", "x"].map(str::to_owned));
        prop_assert_eq!(elements(&of(&texts)), elements(&plain));
    }
}

/// Texts that try to become markup.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[<>\"'&/=a-z \u{0}-\u{1f}]{1,40}",
        ".{1,20}",
        Just("</title></bdi></style><script>alert(1)</script>".to_owned()),
        Just("\" onload=\"alert(1)".to_owned()),
    ]
}
