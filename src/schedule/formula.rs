//! What a drive's four numbers make of a schedule: its class, its order and its holes.
//!
//! Let *r* be what a request costs by itself, *p* what a page of it costs (4 KiB), *s* what a far seek costs, and *g* the
//! gain by depth ([`DriveCosts`]).
//!
//! **Class and order.** A launch of *n* requests takes *n (r + s)* in the order of accesses where each is a far seek. One
//! sweep over the disk takes *n r*, and a few long ways. It delays what the app needs first by all that lies before it
//! on the disk, which is the time of the whole sweep at most. Where *s* is several times *r + p*, as heads make it, *n s* is
//! most of the launch and the sweep wins; [`FAR_SEEK_US`] and *s ≥ r* tell heads from flash that looks up its
//! table of addresses, and from a remote drive, whose requests all take milliseconds. Where *s* is small, sorting gains nothing,
//! and the order of accesses has what is needed first. Whether requests then help each other (*g*) tells the two classes of
//! flash apart (Table 2 of the paper).
//!
//! **Holes.** Reading a hole of *h* pages along costs *h p*, and saves a request, *r*. So a hole is worth it up to
//! *h = r / p*. With heads the same holds within a sweep: the hole passes under the heads in either case, so that
//! leaving it out saves its transfer alone and costs a request. Larger holes would save seeks in theory. In the laboratory five
//! of six apps were fastest with 1 to 7 pages, since a disk that chooses among small requests finds short ways itself. Where
//! requests help each other, they hide each other's *r*: there the hole stays that of the class. Read-along pages also take memory,
//! and a drive may be measured while something disturbs it: [`MOST_HOLE_PAGES`] and [`MOST_HOLE_PAGES_SWEPT`] are the bounds.
//!
//! A simulation of launch and drive chose among hundreds of schedules before, and chose these within 1 to 8 %
//! (docs/design.md).

use crate::model::{DriveClass, DriveCosts, Infill, PAGE_SIZE, Params};

/// A far seek costs at least so much where there are heads, in µs. A quarter of a rotation at 5,400 rpm takes nearly that;
/// flash that looks up the address of a page takes a tenth.
pub const FAR_SEEK_US: f64 = 3000.0;

/// Requests help each other if so many times as many are served with the queue filled. The way through the kernel alone
/// is hidden by the next request, too, which is less.
pub const QUEUED_GAIN: f64 = 1.5;

/// Largest hole on flash that serves one request at a time, in 4 KiB pages: as much as a usual readahead reads.
pub const MOST_HOLE_PAGES: u64 = 32;

/// Largest hole of a sweep, in 4 KiB pages.
pub const MOST_HOLE_PAGES_SWEPT: u64 = 7;

/// The class of a drive.
pub fn class(costs: &DriveCosts) -> DriveClass {
    if costs.far_seek_us >= FAR_SEEK_US && costs.far_seek_us >= costs.request_us {
        DriveClass::Rotational
    } else if costs.depth_gain >= QUEUED_GAIN {
        DriveClass::CommandQueuing
    } else {
        DriveClass::NoCommandQueuing
    }
}

/// Largest hole whose pages cost no more than a request, in 4 KiB pages: 1 to `most`.
pub fn hole_pages(costs: &DriveCosts, most: u64) -> u64 {
    let page_us = costs.kib_us * (PAGE_SIZE / 1024) as f64;
    // The cast saturates, and makes 0 of what is no number.
    ((costs.request_us / page_us) as u64).clamp(1, most)
}

/// The parameters of a drive's schedules: those of its class ([`Params::for_device`]), with its own hole where requests
/// follow each other. `exact`: the launch sequence has the pages that were touched, which lie scattered.
pub fn params(costs: &DriveCosts, exact: bool) -> Params {
    let class = class(costs);
    let params = Params::for_device(class, exact);
    let most = match class {
        DriveClass::CommandQueuing => return params,
        DriveClass::NoCommandQueuing => MOST_HOLE_PAGES,
        DriveClass::Rotational => MOST_HOLE_PAGES_SWEPT,
    };
    let infill = params.infill.map(|infill| Infill {
        hole_pages: hole_pages(costs, most),
        ..infill
    });
    Params { infill, ..params }
}

/// What a drive's numbers mean for its schedules, in words.
pub fn describe(costs: &DriveCosts) -> String {
    let kind = match class(costs) {
        DriveClass::CommandQueuing => "flash that serves several requests at a time",
        DriveClass::NoCommandQueuing => "flash that serves one request at a time",
        DriveClass::Rotational => "disk with heads",
    };
    let hole = params(costs, true).infill.map_or(0, |it| it.hole_pages);
    format!(
        "{kind}: a request costs {}, a KiB {} and a far seek {}; {:.1} times as many small reads with 32 in flight; holes \
         of up to {hole} {} are read along",
        duration(costs.request_us),
        duration(costs.kib_us),
        duration(costs.far_seek_us),
        costs.depth_gain,
        if hole == 1 { "page" } else { "pages" },
    )
}

/// µs in words, such as `7.4 µs`, `133 µs` and `8.2 ms`.
fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 2000.0 => format!("{us:.0} µs"),
        us => format!("{:.1} ms", us / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ReadOrder;
    use crate::schedule::generate::{check_merged, launch};
    use crate::schedule::schedule;

    fn any_costs() -> impl Strategy<Value = DriveCosts> {
        let us = || prop_oneof![0.0..100.0, 0.0..20_000.0, Just(0.0), Just(1e8)];
        (us(), 0.001..1000.0f64, us(), 0.0..100.0f64).prop_map(
            |(request_us, kib_us, far_seek_us, depth_gain)| DriveCosts {
                request_us,
                kib_us,
                far_seek_us,
                depth_gain,
            },
        )
    }

    #[test]
    fn the_numbers_of_a_class_are_of_that_class_and_lead_to_its_parameters() {
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        for of in [CommandQueuing, NoCommandQueuing, Rotational] {
            let costs = DriveCosts::of_class(of);
            assert_eq!(class(&costs), of);
            for exact in [false, true] {
                assert_eq!(params(&costs, exact), Params::for_device(of, exact));
            }
        }
    }

    #[test]
    fn remote_drives_and_slow_flash_have_no_heads() {
        let costs = |request_us, far_seek_us| DriveCosts {
            request_us,
            far_seek_us,
            ..DriveCosts::of_class(DriveClass::NoCommandQueuing)
        };
        assert_eq!(class(&costs(200.0, 7000.0)), DriveClass::Rotational);
        assert_eq!(class(&costs(9000.0, 3500.0)), DriveClass::NoCommandQueuing);
        assert_eq!(class(&costs(200.0, 2900.0)), DriveClass::NoCommandQueuing);
    }

    /// Where requests follow each other, holes are as large as this very drive makes them worth it.
    #[test]
    fn a_drive_has_holes_of_its_own() {
        let of = |class, pages: f64| {
            let costs = DriveCosts::of_class(class);
            let costs = DriveCosts {
                request_us: pages * 4.0 * costs.kib_us,
                ..costs
            };
            params(&costs, true).infill.unwrap().hole_pages
        };
        assert_eq!(of(DriveClass::NoCommandQueuing, 2.5), 2);
        assert_eq!(of(DriveClass::NoCommandQueuing, 5.5), 5);
        assert_eq!(of(DriveClass::Rotational, 2.5), 2);
    }

    #[test]
    fn times_are_told_in_words() {
        let told = [9.94, 10.0, 1999.0, 2000.0].map(duration);
        assert_eq!(told, ["9.9 µs", "10 µs", "1999 µs", "2.0 ms"]);
    }

    #[test]
    fn numbers_are_told_in_words() {
        let disk = describe(&DriveCosts::of_class(DriveClass::Rotational));
        assert_eq!(
            disk,
            "disk with heads: a request costs 130 µs, a KiB 6.8 µs and a far seek 12.6 ms; 2.4 times as many small reads \
             with 32 in flight; holes of up to 4 pages are read along"
        );
        let ssd = describe(&DriveCosts::of_class(DriveClass::CommandQueuing));
        assert!(ssd.starts_with("flash that serves several"), "{ssd}");
    }

    proptest! {
        #[test]
        fn holes_are_bounded_and_cost_no_more_than_a_request(costs in any_costs(), most in 1..64u64) {
            let hole = hole_pages(&costs, most);
            prop_assert!((1..=most).contains(&hole));
            prop_assert!(hole == 1 || hole as f64 * 4.0 * costs.kib_us <= costs.request_us);
            // One page more would cost more, or is beyond the bound.
            prop_assert!(hole == most || (hole + 1) as f64 * 4.0 * costs.kib_us > costs.request_us);
        }

        #[test]
        fn a_sweep_is_for_heads_alone_and_only_touched_pages_have_holes(costs in any_costs(), exact: bool) {
            let of = class(&costs);
            let made = params(&costs, exact);
            let is_swept = made.order == ReadOrder::Disk;
            prop_assert_eq!(is_swept, of == DriveClass::Rotational);
            prop_assert_eq!(made.infill.is_some(), exact);
            if let Some(infill) = made.infill {
                prop_assert!((1..=MOST_HOLE_PAGES).contains(&infill.hole_pages));
                prop_assert!(!is_swept || infill.hole_pages <= MOST_HOLE_PAGES_SWEPT);
            }
        }

        #[test]
        fn each_page_comes_once_and_flash_is_read_in_the_order_of_accesses(
            launch in launch(),
            costs in any_costs(),
            exact: bool,
        ) {
            let made = params(&costs, exact);
            let entries = schedule(&launch.log, &made);
            let infill = made.infill.unwrap_or(Infill { hole_pages: 0, distance: 0 });
            let distance = match made.order {
                ReadOrder::Disk => u64::MAX,
                ReadOrder::Access => infill.distance.max(made.merge_distance),
            };
            check_merged(&launch, &entries, distance, infill.hole_pages)?;
            if made.order == ReadOrder::Access {
                for is_metadata in [false, true] {
                    let of_kind = entries.iter().filter(|it| it.span.place.is_metadata() == is_metadata);
                    prop_assert!(of_kind.map(|entry| entry.time_us).is_sorted());
                }
            }
        }

        #[test]
        fn dearer_requests_never_make_smaller_holes(costs in any_costs(), more in 0.0..1e4f64) {
            let dearer = DriveCosts { request_us: costs.request_us + more, ..costs };
            prop_assert!(hole_pages(&dearer, 64) >= hole_pages(&costs, 64));
        }
    }
}
