//! Measures for readers.

use crate::policy::Measure;

/// A measure for readers, with `drive` as the name of a drive.
pub(super) fn describe(measure: &Measure, drive: impl Fn(&u32) -> String) -> String {
    use crate::policy::DirtyThresholds::{Bytes, Ratios};
    let mib = |bytes: &u64| bytes >> 20;
    match measure {
        Measure::Priority { device, tid, waits } => {
            let why = match waits {
                true => "waits for",
                false => "writes the journal of",
            };
            format!("thread {tid}, which {why} {}: real-time", drive(device))
        }
        Measure::Hold(Ratios { background, dirty })
        | Measure::Dirty(Ratios { background, dirty }) => {
            format!("dirty limits {background} % and {dirty} %")
        }
        Measure::Hold(Bytes { background, dirty })
        | Measure::Dirty(Bytes { background, dirty }) => {
            format!("dirty limits {} and {} MiB", mib(background), mib(dirty))
        }
        Measure::Backlog { device, bytes } => format!("{}: {} MiB", drive(device), mib(bytes)),
        Measure::Group {
            group,
            bytes,
            weight,
        } => {
            let weight = weight.map_or(String::new(), |weight| format!(", weight {weight}"));
            format!("{group}: {} MiB{weight}", mib(bytes))
        }
        Measure::Requests {
            device,
            scheduler,
            async_depth,
            max_sectors_kb,
        } => {
            let scheduler = scheduler.as_ref().map(|name| format!(" scheduler {name}"));
            let largest = max_sectors_kb.map(|kib| format!(" requests of {kib} KiB"));
            let few = async_depth.map(|_| " few writes at a time".to_owned());
            let parts: Vec<String> = [scheduler, few, largest].into_iter().flatten().collect();
            format!("{}:{}", drive(device), parts.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::DirtyThresholds;

    #[test]
    fn measures_are_described_for_readers() {
        let drive = |_: &u32| "sda".to_owned();
        let hold = Measure::Hold(DirtyThresholds::Ratios {
            background: 40,
            dirty: 45,
        });
        assert_eq!(describe(&hold, drive), "dirty limits 40 % and 45 %");
        let backlog = Measure::Backlog {
            device: 8 << 20,
            bytes: 16 << 20,
        };
        assert_eq!(describe(&backlog, drive), "sda: 16 MiB");
        let requests = Measure::Requests {
            device: 8 << 20,
            scheduler: Some("mq-deadline".into()),
            async_depth: Some(1),
            max_sectors_kb: Some(64),
        };
        assert_eq!(
            describe(&requests, drive),
            "sda: scheduler mq-deadline, few writes at a time, requests of 64 KiB"
        );
        let group = Measure::Group {
            group: "/a".into(),
            bytes: 70 << 20,
            weight: Some(10),
        };
        assert_eq!(describe(&group, drive), "/a: 70 MiB, weight 10");
    }
}
