//! Which programs to attach, by the hooks that the running kernel has.
//!
//! Additions to the page cache have a tracepoint on every supported kernel. Uses of pages that are cached
//! already have one only on newer kernels; on others we attach to the functions that the tracepoints were
//! later put into (`bpf/older.h`), where the kernel has them by name and allows it. The choice decides how
//! much of a launch is seen while other programs run, so it is stored in the profile.

use std::mem::MaybeUninit;

use libbpf_rs::OpenProgramMut;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::skel::OpenSkel;

use super::abilities::TraceError;
use super::namespaces::own_namespace;
use super::object::open;
use super::skel::OpenParalfetchSkel;
use crate::model::{HookKind, Hooks};

/// Which program sees each kind of use.
pub(super) struct ProgramSelection {
    /// Whether uses of cached pages are wanted at all; faults tell of additions, too.
    uses: bool,
    reads: HookKind,
    /// Whether filemap_get_pages is given an iterator (up to 6.2) or a count.
    reads_iter: bool,
    fault: HookKind,
    window: HookKind,
}

impl ProgramSelection {
    /// Looks at the running kernel; without `uses`, only faults are to be recorded. On a kernel without the
    /// tracepoints, attaches a program that does nothing to each function, to see whether that is allowed.
    ///
    /// # Errors
    /// When the kernel has no tracepoint for additions.
    pub fn select(kernel: &Kernel, uses: bool) -> Result<Self, TraceError> {
        if !kernel.has_tracepoint("mm_filemap_add_to_page_cache") {
            return Err(TraceError::NoTracepoint("mm_filemap_add_to_page_cache"));
        }
        let count = kernel.parameters("filemap_get_pages", 3..=4);
        let means = |tracepoint: &str, function: &str, known: bool| {
            if kernel.has_tracepoint(tracepoint) {
                HookKind::Tracepoint
            } else if !known {
                HookKind::NoFunction
            } else if can_attach(function) {
                HookKind::Fentry
            } else {
                HookKind::Refused
            }
        };
        Ok(ProgramSelection {
            uses,
            reads: means("mm_filemap_get_pages", "filemap_get_pages", count.is_some()),
            reads_iter: count.is_some_and(|pointers| pointers[1]),
            fault: means(
                "mm_filemap_fault",
                "filemap_fault",
                kernel.parameters("filemap_fault", 1..=1).is_some(),
            ),
            window: means(
                "mm_filemap_map_pages",
                "filemap_map_pages",
                kernel.parameters("filemap_map_pages", 3..=3).is_some(),
            ),
        })
    }

    /// Has the programs that record loaded, for this kernel.
    pub fn apply(&self, open: &mut OpenParalfetchSkel) {
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.o_nofollow = libc::O_NOFOLLOW as u32;
            rodata.own_mount_ns = own_namespace("mnt");
            rodata.own_pid_ns = own_namespace("pid");
        }
        let progs = &mut open.progs;
        progs.page_added.set_autoload(true);
        progs.exec_paths.set_autoload(true);
        progs.block_touched.set_autoload(self.uses);
        progs.syscall_done.set_autoload(self.uses);
        let at_function = match self.reads_iter {
            true => &mut progs.older_pages_read_iter,
            false => &mut progs.older_pages_read,
        };
        load(self.uses, self.reads, &mut progs.pages_read, at_function);
        // Faults and fault-around windows are recorded together or not at all: either alone misses pages.
        let faults = self.hooks().faults.sees();
        let at_function = &mut progs.older_page_faulted;
        load(faults, self.fault, &mut progs.page_faulted, at_function);
        let windows = self.uses && faults;
        let at_function = &mut progs.older_pages_mapped;
        load(windows, self.window, &mut progs.pages_mapped, at_function);
    }

    /// Has the programs loaded that see the use of the completion pages, for this kernel.
    pub fn apply_completion(&self, open: &mut OpenParalfetchSkel) {
        let wanted = self.sees_completion();
        let progs = &mut open.progs;
        let at_function = match self.reads_iter {
            true => &mut progs.older_completion_read_iter,
            false => &mut progs.older_completion_read,
        };
        load(wanted, self.reads, &mut progs.completion_read, at_function);
        let at_function = &mut progs.older_completion_faulted;
        load(
            wanted,
            self.fault,
            &mut progs.completion_faulted,
            at_function,
        );
        let at_function = &mut progs.older_completion_mapped;
        load(
            wanted,
            self.window,
            &mut progs.completion_mapped,
            at_function,
        );
    }

    /// Whether uses of completion pages are seen, whether they are read or mapped. Where only one of both is, it would
    /// seem unused in launches that use it the other way.
    pub fn sees_completion(&self) -> bool {
        self.reads.sees() && self.hooks().faults.sees()
    }

    /// The choice in short.
    pub fn hooks(&self) -> Hooks {
        Hooks {
            reads: self.reads,
            faults: self.fault.weaker(self.window),
        }
    }
}

/// Has one of two programs loaded, if wanted: the one at the tracepoint, or the one at the function.
fn load(
    wanted: bool,
    means: HookKind,
    at_tracepoint: &mut OpenProgramMut<'_>,
    at_function: &mut OpenProgramMut<'_>,
) {
    at_tracepoint.set_autoload(wanted && means == HookKind::Tracepoint);
    at_function.set_autoload(wanted && means == HookKind::Fentry);
}

/// The running kernel, by its BTF.
pub(super) struct Kernel(Btf<'static>);

impl Kernel {
    /// Reads the BTF, of some megabytes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn running() -> Result<Self, TraceError> {
        Btf::from_vmlinux()
            .map(Kernel)
            .map_err(|error| TraceError::from_bpf("reading the kernel's BTF", error))
    }

    /// Whether it has this tracepoint.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.0
            .type_by_name::<BtfType<'_>>(&format!("btf_trace_{name}"))
            .is_some()
    }

    /// For each parameter of a function, whether it is a pointer. `None` if there is no such
    /// function, or it has another number of parameters than we know it with.
    fn parameters(
        &self,
        function: &str,
        count: std::ops::RangeInclusive<usize>,
    ) -> Option<Vec<bool>> {
        use libbpf_rs::btf::ReferencesType;
        let function: Func<'_> = self.0.type_by_name(function)?;
        let prototype = FuncProto::try_from(function.referenced_type()).ok()?;
        let pointers: Vec<bool> = prototype
            .iter()
            .map(|parameter| self.0.type_by_id::<Ptr<'_>>(parameter.ty).is_some())
            .collect();
        count.contains(&pointers.len()).then_some(pointers)
    }
}

/// Whether the kernel lets us attach to this function of its own: tries it.
fn can_attach(function: &str) -> bool {
    let mut storage = MaybeUninit::uninit();
    let Ok(mut open) = open(&mut storage) else {
        return false;
    };
    let probe = &mut open.progs.probe;
    probe.set_autoload(true);
    let attached = probe
        .set_attach_target(0, Some(function.to_owned()))
        .and_then(|()| open.load()?.progs.probe.attach_trace());
    attached.is_ok()
}
