//! The methods by name, and what each of them is.

use std::fmt;

use super::learned::LearningRun;

/// A way to prefetch a launch, under the name of its scenario in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The set as read, prefetched as [`Method::ShiftMerge`] does, without any app: the time from the
    /// first request to the arrival of the last is t_ssd (FAST §5.1, "prefetcher only").
    OnlyAsRead,
    /// The exact set, prefetched as [`Method::Infill`] does, without any app: t_ssd of the pages that
    /// the launch really touches.
    OnlyExact,
    /// GSoC Prefetch, as Paralfetch's authors compared with it (Paralfetch §2.3 and §5.1): the pages
    /// of regular files that the launch referenced, sorted by device, inode number and offset, with
    /// contiguous pages in one request, while the app is held. Metadata are not traced, so the
    /// prefetcher itself and the app read them one after the other. Referenced pages are taken from
    /// exact learning, which misses none; the original loses those whose `referenced` bit the kernel
    /// turns off (§3.1), so this is the better of the two.
    Gsoc,
    /// Sorted prefetch, as Windows does it and FAST compared with it (FAST §2.1 and §5.1): the set as
    /// read, metadata included, in the order of disk positions, with contiguous blocks in one
    /// request, while the app is held until all of it has arrived. No launch waits for a block, but
    /// nothing is computed meanwhile. Data are asked for through their files, so where inodes lie
    /// behind their data on the disk the prefetcher waits for them out of order, as FAST's own
    /// version did.
    Sorted,
    /// FAST (§4): the block requests that two cold launches have in common, in the order of the first,
    /// replayed by a user-level prefetcher that starts with the app. It works by path: a page of a
    /// file is asked for by open(2) and posix_fadvise(2) with WILLNEED, a block of the inode table by
    /// opening a file that has its inode there, a directory block by listing the directory (Table 1).
    /// Extent blocks come implicitly (§4.3.2). It knows what the drive read: neither pages that were
    /// cached before the learned launch nor metadata that only a dependency check finds. Paths that its
    /// system-call profiler would record are found in the launch's file table, in the directories
    /// on the way to these files, and in their subdirectories. posix_fadvise(2) is called in chunks
    /// that today's kernel honours. Symbolic links too long for their inode, which FAST reads by
    /// readlink(2), are not replayed.
    Fast,
    /// Mobifetch (§2) as its authors describe it: the set as read with the metadata that the dependency check finds,
    /// entries merged across holes of a few unneeded blocks where they are near in the sequence, in recorded order
    /// otherwise, by a thread beside the app. Without the metadata shift, which came with Paralfetch. The thresholds, of
    /// which the paper only says that there are two, follow the drive's class.
    Mobifetch,
    /// Paralfetch without pre-scheduling, the first step of the paper's Figure 10: the sequence as
    /// read in recorded order, one prefetch entry for each log entry, metadata through the block
    /// device, started with the app. Missing metadata and pages that were cached before the learned
    /// launch are in the sequence: the paper has them as parts of accurate tracing (§3.1), and names
    /// only scheduling among the optimisations that the figure adds one at a time.
    Traced,
    /// [`Method::Traced`] with metadata shift (Paralfetch §3.2, Algorithm 1), of the size that Table 2
    /// gives for the class of drive.
    Shift,
    /// [`Method::Shift`] after range merge (Algorithm 2): Paralfetch with pre-scheduling, as in the
    /// paper, and as the product does for profiles learned as read.
    ShiftMerge,
    /// [`Method::ShiftMerge`] of the exact set: only pages that the launch touched, none of those that
    /// the kernel's readahead brought along in the learned launch. Beyond the papers.
    Exact,
    /// [`Method::Exact`] with infill merge (Mobifetch §2): small holes between needed pages are read
    /// along where that saves a request. The product's way on flash.
    Infill,
    /// [`Method::Infill`] with dynamic scheduling (Paralfetch §3.3): the schedule that the service has
    /// arrived at after a number of cold launches, started from that of [`Method::Infill`].
    Dynamic,
    /// The exact set in the schedule that the drive's costs ask for by the product's formula, started with the app: one sweep
    /// on a disk with heads, the schedule of [`Method::Infill`] elsewhere, with the hole of the drive. What the product
    /// does.
    Formula,
}

impl Method {
    /// All methods, in the order in which reports show them.
    pub const ALL: [Method; 13] = [
        Method::OnlyAsRead,
        Method::OnlyExact,
        Method::Gsoc,
        Method::Sorted,
        Method::Fast,
        Method::Mobifetch,
        Method::Traced,
        Method::Shift,
        Method::ShiftMerge,
        Method::Exact,
        Method::Infill,
        Method::Dynamic,
        Method::Formula,
    ];

    /// Name of the scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Method::OnlyAsRead => "only-as-read",
            Method::OnlyExact => "only-exact",
            Method::Gsoc => "gsoc",
            Method::Sorted => "sorted",
            Method::Fast => "fast",
            Method::Mobifetch => "mobifetch",
            Method::Traced => "traced",
            Method::Shift => "shift",
            Method::ShiftMerge => "shift+merge",
            Method::Exact => "exact",
            Method::Infill => "infill",
            Method::Dynamic => "dynamic",
            Method::Formula => "formula",
        }
    }

    /// Whether the app is held until prefetching has ended. Otherwise it starts with the prefetcher,
    /// unless there is [no app](Method::alone) at all.
    pub fn held(self) -> bool {
        matches!(self, Method::Gsoc | Method::Sorted)
    }

    /// Whether there is no app: only the prefetch is timed.
    pub fn alone(self) -> bool {
        matches!(self, Method::OnlyAsRead | Method::OnlyExact)
    }

    /// The learned sets that a plan needs.
    pub fn needs(self) -> &'static [LearningRun] {
        match self {
            Method::OnlyExact | Method::Gsoc | Method::Exact | Method::Infill | Method::Formula => {
                &[LearningRun::Exact]
            }
            Method::Dynamic => &[LearningRun::Dynamic],
            Method::Fast => &[LearningRun::AsRead, LearningRun::AsReadAgain],
            Method::OnlyAsRead
            | Method::Sorted
            | Method::Mobifetch
            | Method::Traced
            | Method::Shift
            | Method::ShiftMerge => &[LearningRun::AsRead],
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_method_holds_an_app_that_it_does_not_have() {
        for method in Method::ALL {
            assert!(!(method.held() && method.alone()), "{method}");
        }
    }
}
