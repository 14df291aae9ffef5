//! Loading and attaching the detector's BPF object.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use paralfetch::kernel::{TraceError, capture_libbpf_log, check};

use super::WaitOptions;
use super::skel::WaitsSkelBuilder;
use super::skel::types::bss;
use super::tracepoints::Tracepoints;

/// The loaded object: what is used of it, by descriptors.
pub(super) struct DetectorObject {
    pub reports: MapHandle,
    globals: MapHandle,
    programs: Vec<OwnedFd>,
    /// The iterator over waits that are under way.
    pub under_way: Link,
    /// Declared last: the programs stay attached as long as the rest.
    _links: Vec<Link>,
}

impl DetectorObject {
    /// Loads and attaches the programs that this kernel has tracepoints for.
    ///
    /// # Errors
    /// Says which privilege or kernel ability is missing.
    pub fn start(options: &WaitOptions, tracepoints: &Tracepoints) -> Result<Self, TraceError> {
        check()?;
        capture_libbpf_log();
        let bpf = TraceError::from_bpf;
        let mut storage = MaybeUninit::uninit();
        let mut open = WaitsSkelBuilder::default()
            .open(&mut storage)
            .map_err(|error| bpf("opening the detector's BPF object", error))?;
        let constants = open.maps.rodata_data.as_deref_mut();
        let constants = constants.expect("the object has constants");
        constants.page_bytes = rustix::param::page_size() as u32;
        constants.least_ns = u64::try_from(options.least.as_nanos()).unwrap_or(u64::MAX);
        constants.only_pid = options
            .only
            .map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        for mut program in open.open_object_mut().progs_mut() {
            let wanted = match hook(program.section().to_str()) {
                Some(Hook::Tracepoint(name)) => tracepoints.has(name),
                Some(Hook::Iterator) => true,
                None => false,
            };
            program.set_autoload(wanted);
        }
        let skel = open
            .load()
            .map_err(|error| bpf("loading the detector's BPF programs", error))?;

        let system = |what| move |error: io::Error| TraceError::system(what, error);
        let (mut programs, mut links) = (Vec::new(), Vec::new());
        for program in skel.object().progs_mut() {
            let is_tracepoint =
                matches!(hook(program.section().to_str()), Some(Hook::Tracepoint(_)));
            if is_tracepoint && program.autoload() {
                let own = program.as_fd().try_clone_to_owned();
                programs.push(own.map_err(system("duplicating a program"))?);
                let link = program.attach();
                links.push(
                    link.map_err(|error| bpf("attaching the detector's BPF programs", error))?,
                );
            }
        }
        let under_way = skel
            .progs
            .waits_under_way
            .attach()
            .map_err(|error| bpf("attaching the iterator over tasks", error))?;
        let keep = || {
            let reports = MapHandle::try_from(&skel.maps.reports)?;
            Ok((reports, MapHandle::try_from(&skel.maps.bss)?))
        };
        let (reports, globals) = keep().map_err(|error| bpf("duplicating a map", error))?;
        Ok(DetectorObject {
            reports,
            globals,
            programs,
            under_way,
            _links: links,
        })
    }

    /// Reports that the programs have lost.
    pub fn lost(&self) -> u64 {
        let globals = self.globals.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let globals = globals.ok().flatten().unwrap_or_default();
        let word = globals.get(offset_of!(bss, lost)..);
        word.and_then(|word| Some(u64::from_ne_bytes(*word.first_chunk()?)))
            .unwrap_or(0)
    }

    /// How long the programs have run; `None` unless the kernel has measured it.
    pub fn run_time(&self) -> Option<Duration> {
        let times = self.programs.iter().map(run_time_ns);
        let total: u64 = times.sum::<Option<u64>>()?;
        (total > 0).then(|| Duration::from_nanos(total))
    }
}

enum Hook<'a> {
    Tracepoint(&'a str),
    Iterator,
}

/// What a program is for, by its section.
fn hook(section: Option<&str>) -> Option<Hook<'_>> {
    let section = section?.trim_start_matches('?');
    match section.split_once('/')? {
        ("tp_btf", name) => Some(Hook::Tracepoint(name)),
        ("iter", _) => Some(Hook::Iterator),
        _ => None,
    }
}

fn run_time_ns(program: &OwnedFd) -> Option<u64> {
    let mut info = bpf_prog_info::default();
    let mut size = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `size` bytes of a struct of integers; its pointers are null.
    let result = unsafe { bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut size) };
    (result == 0).then_some(info.run_time_ns)
}
